//! A mounted tree and a plain copy of it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use headwater_fuse::init::Opening;
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::support::Cluster;
use crate::support::mounted::{Mounted, assert_same, check_at};

/// A change of a directory, which returns its outcome.
pub type Case = (&'static str, fn(&Path) -> String);

/// The user that makes the change.
#[derive(Clone, Copy, Debug)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
    pub groups: &'static [u32],
}

pub const ROOT: User = User { uid: 0, gid: 0, groups: &[] };
pub const USER: User = User { uid: 1000, gid: 1000, groups: &[2000] };
pub const NOBODY: User = User { uid: 65534, gid: 65534, groups: &[] };

/// Runs each case as `user`, in its own directory, on both trees: once with nothing of them in the
/// kernel's caches and once with everything. `plant` adds to the directories' content.
pub fn compare(cases: &[Case], user: User, plant: fn(&Path)) {
    for opening in [Opening::None, Opening::Cached] {
        for is_warm in [false, true] {
            compare_once(cases, user, plant, opening, is_warm);
        }
    }
}

fn compare_once(cases: &[Case], user: User, plant: fn(&Path), opening: Opening, is_warm: bool) {
    let mut cluster = Cluster::prepare();
    let (shared, copy) = (cluster.shared("").components().as_path().to_owned(), cluster.dir.path().join("copy"));
    fs::set_permissions(cluster.dir.path(), Permissions::from_mode(0o755)).unwrap();
    for (name, _) in cases {
        for root in [&shared, &copy] {
            plant_one(&root.join(name), user);
            plant(&root.join(name));
        }
    }
    let (at, root) = (cluster.dir.path().join("mount"), shared.clone());
    let mounts = std::cell::RefCell::new(Vec::new());
    cluster.run(1, |config| mounts.borrow_mut().push(Mounted::with(config, &at, &root, opening, true)));
    let Some(mounted) = mounts.into_inner().pop().flatten() else { return };
    let place = format!("{opening:?}, {}, {user:?}", if is_warm { "known before" } else { "new" });
    for (name, case) in cases {
        if is_warm {
            check_at(&mounted.path(name));
        }
        let (expected, found) = std::thread::scope(|scope| {
            let expected = scope.spawn(|| as_user(user, || case(&copy.join(name))));
            let found = as_user(user, || case(&mounted.path(name)));
            (expected.join().unwrap(), found)
        });
        assert_eq!(found, expected, "{name} ({place})");
        assert_eq!(summary(&shared.join(name)), summary(&copy.join(name)), "the tree after {name} ({place})");
        assert_same(&shared.join(name), &mounted.path(name));
    }
    drop(mounted);
    cluster.stop();
}

/// Creates the input of every case: plain files, one executable, one with two names, directories, links.
fn plant_one(root: &Path, user: User) {
    fs::create_dir_all(root.join("dir/sub")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    for (name, content) in [("file", "content"), ("other", "another"), ("dir/inner", "inner"), ("dir/sub/leaf", "leaf")]
    {
        fs::write(root.join(name), content).unwrap();
        fs::set_permissions(root.join(name), Permissions::from_mode(0o644)).unwrap();
    }
    fs::write(root.join("tool"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(root.join("tool"), Permissions::from_mode(0o755)).unwrap();
    fs::hard_link(root.join("file"), root.join("same")).unwrap();
    symlink("file", root.join("link")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    for path in check_at(root).keys() {
        std::os::unix::fs::lchown(root.join(path), Some(user.uid), Some(user.gid)).unwrap();
    }
    for directory in ["", "dir", "dir/sub", "empty"] {
        fs::set_permissions(root.join(directory), Permissions::from_mode(0o755)).unwrap();
    }
}

/// Runs `work` on a thread with `user`'s credentials.
pub fn as_user<T: Send>(user: User, work: impl FnOnce() -> T + Send) -> T {
    let change = move || {
        if user.uid != 0 {
            let groups: Vec<Gid> = user.groups.iter().map(|&group| Gid::from_raw(group)).collect();
            let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
            set_thread_groups(&groups).unwrap();
            set_thread_res_gid(gid, gid, gid).unwrap();
            set_thread_res_uid(uid, uid, uid).unwrap();
        }
        work()
    };
    std::thread::scope(|scope| scope.spawn(change).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

/// Describes a tree without times and inode numbers, which no two trees share.
pub fn summary(root: &Path) -> BTreeMap<PathBuf, String> {
    let describe = |(path, seen): (PathBuf, crate::support::mounted::Seen)| {
        let m = fs::symlink_metadata(root.join(&path)).unwrap();
        let names: Option<Vec<_>> = seen.names.map(|names| names.into_keys().collect());
        let size = if m.is_dir() { 0 } else { m.size() };
        let text = format!(
            "{:o} links {} owner {}:{} rdev {} size {size} {:?} {:?} {names:?} {:?}",
            m.mode(),
            m.nlink(),
            m.uid(),
            m.gid(),
            m.rdev(),
            seen.link,
            seen.content,
            seen.xattrs
        );
        (path, text)
    };
    check_at(root).into_iter().map(describe).collect()
}

/// Returns a system call's result as text.
pub fn outcome<T: Debug>(result: Result<T, Errno>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(errno) => format!("{errno:?}"),
    }
}

/// Joins several results.
pub fn all<const N: usize>(outcomes: [String; N]) -> String {
    outcomes.join("; ")
}

/// Calls truncate(2), which takes a path.
pub fn truncate(path: &Path, bytes: u64) -> String {
    let script = "import os, sys\ntry: os.truncate(sys.argv[1], int(sys.argv[2]))\nexcept OSError as e: print(e.errno)";
    let output = Command::new("python3").args(["-c", script]).arg(path).arg(bytes.to_string()).output().unwrap();
    format!("{:?}", String::from_utf8(output.stdout))
}
