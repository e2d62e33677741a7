//! A mount outside of a namespace refuses every change.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use headwater_fuse::init::Opening;
use rustix::fs::{CWD, FileType, Mode, OFlags, RenameFlags, Timestamps, XattrFlags};
use rustix::io::Errno;

use crate::pair::{summary, truncate};
use crate::support::Cluster;
use crate::support::mounted::Mounted;

#[test]
fn nothing_can_be_changed() {
    for opening in [Opening::None, Opening::Cached] {
        let mut cluster = Cluster::prepare();
        cluster.write("dir/file", b"content");
        fs::set_permissions(cluster.shared("dir/file"), fs::Permissions::from_mode(0o666)).unwrap();
        symlink("file", cluster.shared("dir/link")).unwrap();
        let before = summary(&cluster.shared(""));
        let (root, at) = (cluster.shared("").components().as_path().to_owned(), cluster.dir.path().join("mount"));
        let mounts = std::cell::RefCell::new(Vec::new());
        cluster.run(1, |config| mounts.borrow_mut().push(Mounted::new(config, &at, &root, opening)));
        let Some(mounted) = mounts.into_inner().pop().flatten() else { return };
        let (file, new, mode) = (mounted.path("dir/file"), mounted.path("dir/new"), Mode::from_raw_mode(0o644));
        let open = |path, flags| rustix::fs::open(path, flags | OFlags::CLOEXEC, mode).map(drop);
        let none = XattrFlags::empty();
        let times = Timestamps {
            last_access: rustix::fs::Timespec::default(),
            last_modification: rustix::fs::Timespec::default(),
        };
        let attempts = [
            ("open for writing", open(&file, OFlags::WRONLY)),
            ("open for truncation", open(&file, OFlags::RDWR | OFlags::TRUNC)),
            ("create", open(&new, OFlags::WRONLY | OFlags::CREATE)),
            ("create exclusively", open(&new, OFlags::RDONLY | OFlags::CREATE | OFlags::EXCL)),
            ("mkdir", rustix::fs::mkdir(&new, mode)),
            ("mknod", rustix::fs::mknodat(CWD, &new, FileType::Fifo, mode, 0)),
            ("symlink", rustix::fs::symlink("x", &new)),
            ("link", rustix::fs::link(&file, &new)),
            ("unlink", rustix::fs::unlink(&file)),
            ("rmdir", rustix::fs::rmdir(mounted.path("dir"))),
            ("rename", rustix::fs::rename(&file, &new)),
            ("exchange", rustix::fs::renameat_with(CWD, &file, CWD, mounted.path("dir/link"), RenameFlags::EXCHANGE)),
            ("chmod", rustix::fs::chmod(&file, mode)),
            ("chown", rustix::fs::chown(&file, None, Some(rustix::fs::Gid::from_raw(1)))),
            ("utimens", rustix::fs::utimensat(CWD, &file, &times, rustix::fs::AtFlags::empty())),
            ("setxattr", rustix::fs::setxattr(&file, "user.x", b"x", none)),
            ("removexattr", rustix::fs::removexattr(&file, "user.x")),
        ];
        for (what, result) in attempts {
            assert_eq!(result, Err(Errno::ROFS), "{what}");
        }
        assert_eq!(truncate(&file, 0), format!("Ok(\"{}\\n\")", Errno::ROFS.raw_os_error()));
        assert_eq!(fs::read(&file).unwrap(), b"content");
        assert_eq!(summary(&cluster.shared("")), before);
        drop(mounted);
        cluster.stop();
    }
}
