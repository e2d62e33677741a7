//! One user's permissions on another's files.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use rustix::fs::{
    CWD, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, chmod, mkdir, open, rename, rmdir, unlink, utimensat,
};

use crate::pair::{Case, NOBODY, USER, all, compare, outcome, truncate};

/// Gives the case's input to another user, with some of it writable for all.
fn plant(d: &Path) {
    for (name, gid, mode) in [
        ("", 0, 0o755),
        ("dir", 2000, 0o775),
        ("dir/inner", 2000, 0o664),
        ("dir/sub", 0, 0o1777),
        ("empty", 0, 0o777),
        ("file", 0, 0o644),
        ("other", 0, 0o666),
        ("tool", 0, 0o6777),
    ] {
        chown(d.join(name), Some(0), Some(gid)).unwrap();
        fs::set_permissions(d.join(name), Permissions::from_mode(mode)).unwrap();
    }
    fs::write(d.join("secret"), "nobody else's").unwrap();
    fs::set_permissions(d.join("secret"), Permissions::from_mode(0o600)).unwrap();
    fs::write(d.join("dir/sub/theirs"), "sticky").unwrap();
}

const CASES: &[Case] = &[
    ("names", |d| {
        let make = |name: &str| outcome(mkdir(d.join(name), Mode::from_raw_mode(0o755)));
        let owner = |name: &str| fs::symlink_metadata(d.join(name)).map(|m| (m.uid(), m.gid())).map_err(|e| e.kind());
        let results = all([
            make("new"),
            make("dir/new"),
            make("empty/new"),
            make("dir/sub/new"),
            outcome(unlink(d.join("file"))),
            outcome(unlink(d.join("dir/sub/theirs"))),
            outcome(rename(d.join("file"), d.join("empty/file"))),
            outcome(rename(d.join("empty/new"), d.join("empty/renamed"))),
            outcome(rmdir(d.join("dir/sub/new"))),
        ]);
        all([results, format!("{:?} {:?}", owner("dir/new"), owner("empty/renamed"))])
    }),
    ("contents", |d| {
        let append = |name: &str| {
            let file = OpenOptions::new().append(true).open(d.join(name));
            format!("{:?}", file.and_then(|mut file| file.write_all(b"+")).map_err(|e| e.kind()))
        };
        let read = |name: &str| format!("{:?}", fs::read_to_string(d.join(name)).map_err(|e| e.kind()));
        all([append("file"), append("other"), append("secret"), append("dir/inner"), read("secret"), read("other")])
    }),
    ("attributes", |d| {
        let set = |name: &str, mode: u32| outcome(chmod(d.join(name), Mode::from_raw_mode(mode)));
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let touch = |name: &str, time: Timespec| {
            let times = Timestamps { last_access: time, last_modification: time };
            outcome(utimensat(CWD, d.join(name), &times, rustix::fs::AtFlags::empty()))
        };
        all([
            set("other", 0o600),
            touch("other", now),
            touch("other", Timespec { tv_sec: 1, tv_nsec: 0 }),
            touch("file", now),
            truncate(&d.join("other"), 1),
            truncate(&d.join("file"), 1),
        ])
    }),
    ("set_id_bits_go_with_a_write", |d| {
        let mut tool = OpenOptions::new().append(true).open(d.join("tool")).unwrap();
        tool.write_all(b"changed by another").unwrap();
        format!("{:o}", fs::metadata(d.join("tool")).unwrap().mode())
    }),
    ("what_is_made_is_the_makers", |d| {
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
        drop(open(d.join("empty/mine"), flags, Mode::from_raw_mode(0o600)).unwrap());
        std::os::unix::fs::symlink("x", d.join("empty/link")).unwrap();
        let owner = |name: &str| fs::symlink_metadata(d.join(name)).map(|m| (m.uid(), m.gid(), m.mode())).unwrap();
        format!("{:?} {:?}", owner("empty/mine"), owner("empty/link"))
    }),
    ("a_descriptor_that_was_given", |d| {
        // Opened while permitted, used when it no longer is.
        fs::write(d.join("empty/given"), "").unwrap();
        let mut file = OpenOptions::new().append(true).open(d.join("empty/given")).unwrap();
        fs::set_permissions(d.join("empty/given"), Permissions::from_mode(0o400)).unwrap();
        format!(
            "{:?} {:?}",
            file.write_all(b"goes on").map_err(|e| e.kind()),
            fs::read_to_string(d.join("empty/given"))
        )
    }),
];

#[test]
fn members_of_a_group_may_what_they_may_in_a_plain_tree() {
    compare(CASES, USER, plant);
}

#[test]
fn other_users_have_their_permissions_in_a_plain_tree() {
    compare(CASES, NOBODY, plant);
}
