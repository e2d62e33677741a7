//! Attributes: modes, owners, times, extended attributes.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid, XattrFlags, chmod, chownat,
    fchmod, getxattr, mkdir, open, setxattr, utimensat,
};

use crate::pair::{Case, ROOT, USER, all, compare, outcome, truncate};

fn mode_of(path: impl AsRef<Path>) -> String {
    format!("{:o}", fs::symlink_metadata(path).unwrap().mode())
}

fn time(tv_sec: i64, tv_nsec: i64) -> Timespec {
    Timespec { tv_sec, tv_nsec: tv_nsec as _ }
}

const CASES: &[Case] = &[
    ("chmod", |d| {
        let set = |name: &str, mode: u32| outcome(chmod(d.join(name), Mode::from_raw_mode(mode)));
        let results =
            all([set("file", 0o600), set("dir", 0o711), set("link", 0o640), set("absent", 0o600), set("tool", 0o6755)]);
        let by_descriptor = outcome(fchmod(File::open(d.join("other")).unwrap(), Mode::from_raw_mode(0o604)));
        all([results, by_descriptor, mode_of(d.join("same")), mode_of(d.join("other"))])
    }),
    ("chown", |d| {
        let set = |name: &str, uid: Option<u32>, gid: Option<u32>, flags| {
            outcome(chownat(CWD, d.join(name), uid.map(Uid::from_raw), gid.map(Gid::from_raw), flags))
        };
        chmod(d.join("tool"), Mode::from_raw_mode(0o6755)).unwrap();
        all([
            set("file", None, Some(2000), AtFlags::empty()),
            set("other", Some(1000), None, AtFlags::empty()),
            set("link", None, Some(2000), AtFlags::SYMLINK_NOFOLLOW),
            set("dir", Some(3000), Some(3000), AtFlags::empty()),
            set("tool", None, Some(2000), AtFlags::empty()),
            mode_of(d.join("tool")),
        ])
    }),
    ("times", |d| {
        let set = |name: &str, access, modification, flags| {
            let times = Timestamps { last_access: access, last_modification: modification };
            outcome(utimensat(CWD, d.join(name), &times, flags))
        };
        let results = all([
            set("file", time(1_000_000, 5), time(2_000_000, 999_999_999), AtFlags::empty()),
            set("dir", time(0, UTIME_OMIT), time(-5, 7), AtFlags::empty()),
            set("link", time(3, 0), time(4, 0), AtFlags::SYMLINK_NOFOLLOW),
            set("other", time(0, UTIME_NOW), time(0, UTIME_OMIT), AtFlags::empty()),
            set("absent", time(1, 0), time(1, 0), AtFlags::empty()),
        ]);
        let shown = |name: &str| {
            let m = fs::symlink_metadata(d.join(name)).unwrap();
            format!("{}.{} {}.{}", m.atime(), m.atime_nsec(), m.mtime(), m.mtime_nsec())
        };
        let modified = fs::metadata(d.join("dir")).unwrap();
        all([results, shown("same"), shown("link"), format!("{}.{}", modified.mtime(), modified.mtime_nsec())])
    }),
    ("times_move_on", |d| {
        let before = fs::metadata(d.join("file")).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::write(d.join("file"), "newer").unwrap();
        let (file, directory) = (fs::metadata(d.join("file")).unwrap(), fs::metadata(d).unwrap());
        fs::write(d.join("fresh"), "x").unwrap();
        let later = fs::metadata(d).unwrap();
        let newer = file.modified().unwrap() > before.modified().unwrap();
        format!("{newer} {}", later.modified().unwrap() >= directory.modified().unwrap())
    }),
    ("extended", |d| {
        let set =
            |name: &str, key: &str, value: &str, flags| outcome(setxattr(d.join(name), key, value.as_bytes(), flags));
        let get = |name: &str, key: &str| {
            let mut value = [0; 100];
            outcome(getxattr(d.join(name), key, &mut value).map(|bytes| String::from_utf8(value[..bytes].to_vec())))
        };
        let mut short = [0; 2];
        all([
            set("file", "user.one", "a value", XattrFlags::empty()),
            set("file", "user.one", "another", XattrFlags::CREATE),
            set("file", "user.two", "another", XattrFlags::REPLACE),
            set("dir", "user.dir", "", XattrFlags::CREATE),
            get("same", "user.one"),
            get("file", "user.absent"),
            outcome(getxattr(d.join("file"), "user.one", &mut short)),
            outcome(rustix::fs::removexattr(d.join("file"), "user.one")),
            outcome(rustix::fs::removexattr(d.join("file"), "user.one")),
            set("file", "unknown.kind", "x", XattrFlags::empty()),
        ])
    }),
    ("inherited_group", |d| {
        chownat(CWD, d.join("empty"), None, Some(Gid::from_raw(2000)), AtFlags::empty()).unwrap();
        chmod(d.join("empty"), Mode::from_raw_mode(0o2775)).unwrap();
        mkdir(d.join("empty/dir"), Mode::from_raw_mode(0o755)).unwrap();
        fs::write(d.join("empty/dir/file"), "x").unwrap();
        let m = fs::metadata(d.join("empty/dir/file")).unwrap();
        format!("{} {} {:o}", mode_of(d.join("empty/dir")), m.gid(), m.mode())
    }),
    ("mask", |d| {
        let run =
            |script: &str| std::process::Command::new("/bin/sh").args(["-c", script]).current_dir(d).status().unwrap();
        let status =
            run("umask 077; echo x > a; mkdir b; umask 0; echo x > c; mkdir e; umask 027; mkfifo f; ln -s x g");
        format!("{status} {:?}", ["a", "b", "c", "e", "f"].map(|name| mode_of(d.join(name))))
    }),
    ("writing_takes_set_id_bits", |d| {
        chmod(d.join("tool"), Mode::from_raw_mode(0o6777)).unwrap();
        chmod(d.join("other"), Mode::from_raw_mode(0o6777)).unwrap();
        rustix::io::write(open(d.join("tool"), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).unwrap(), b"x")
            .unwrap();
        truncate(&d.join("other"), 1);
        all([mode_of(d.join("tool")), mode_of(d.join("other"))])
    }),
    ("no_permission_to_read", |d| {
        fs::set_permissions(d.join("file"), Permissions::from_mode(0o200)).unwrap();
        fs::set_permissions(d.join("dir"), Permissions::from_mode(0o300)).unwrap();
        let read = fs::read(d.join("file")).map_err(|e| e.kind());
        let append = fs::OpenOptions::new()
            .append(true)
            .open(d.join("file"))
            .and_then(|mut file| std::io::Write::write_all(&mut file, b"blindly"));
        let listed = fs::read_dir(d.join("dir")).map(|entries| entries.count()).map_err(|e| e.kind());
        let found = fs::read(d.join("dir/inner")).map_err(|e| e.kind());
        let made = fs::write(d.join("dir/new"), "x").map_err(|e| e.kind());
        fs::set_permissions(d.join("dir"), Permissions::from_mode(0o755)).unwrap();
        format!("{read:?} {append:?} {listed:?} {found:?} {made:?}")
    }),
];

#[test]
fn attributes_change_as_in_a_plain_tree() {
    compare(CASES, ROOT, |_| {});
}

#[test]
fn attributes_change_as_in_a_plain_tree_for_another_user() {
    compare(CASES, USER, |_| {});
}
