//! Names and directories.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirEntryExt;
use std::path::Path;

use headwater_tests::harness::{Fixture, View};
use headwater_tests::model::{Action, Operation, execute};

use crate::assert_alike;
use headwater_tests::needs_mounts;

fn names(dir: &Path) -> BTreeSet<(OsString, u64)> {
    let entries = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("a name"));
    entries.map(|entry| (entry.file_name(), entry.ino())).collect()
}

#[test]
fn names_of_any_bytes_and_any_length() {
    needs_mounts!();
    let fixture = Fixture::new("names");
    let dir = fixture.dir("names");
    let long: Vec<u8> = (0..255).map(|n| b'a' + n % 26).collect();
    let every_byte: Vec<u8> = (1..=255u8).filter(|&byte| byte != b'/').collect();
    let plain: [&[u8]; 6] = [b"\xff\xfe", b"\n", b" ", b"-rf", "\u{1f30a}".as_bytes(), b".."];
    for name in [&long[..], &every_byte[..]].into_iter().chain(plain).filter(|name| *name != b"..") {
        fs::write(dir.join(OsStr::from_bytes(name)), name).expect("an own directory");
    }
    let view = View::of(&fixture.shared());
    assert_eq!(names(&view.join("names")), names(&dir));
    for (name, _) in names(&dir) {
        let path = view.join("names").join(&name);
        assert_eq!(fs::read(&path).expect("it is there"), name.as_bytes(), "{path:?}");
    }
    for bytes in [256, 1000, 1024, 1025, 3000] {
        let path = [b"names/".to_vec(), vec![b'x'; bytes]].concat();
        for action in [Action::Stat { follows: true }, Action::Open { flags: 0 }, Action::Readlink] {
            let operation = Operation::new(path.clone(), action);
            assert_eq!(execute(view.path(), &operation), execute(&fixture.shared(), &operation), "{bytes} bytes");
        }
    }
    let absent = OsString::from_vec(vec![b'x'; 255]);
    assert!(!view.join("names").join(absent).exists());
    view.unmount();
}

#[test]
fn a_directory_of_100_000_names() {
    needs_mounts!();
    const NAMES: usize = 100_000;
    let fixture = Fixture::new("manynames");
    let dir = fixture.dir("many");
    (0..NAMES).for_each(|n| drop(fs::File::create(dir.join(format!("name-{n}"))).expect("an own directory")));
    let view = View::of(&fixture.shared());
    assert_eq!(names(&view.join("many")), names(&dir));
    let after_listing = view.fuse_requests();
    for n in (0..NAMES).step_by(997) {
        assert!(view.join(format!("many/name-{n}")).exists());
        assert!(!view.join(format!("many/none-{n}")).exists());
    }
    // The kernel caches absent names: a second look-up makes no request.
    let before = view.fuse_requests();
    assert!(before > after_listing);
    for n in (0..NAMES).step_by(997) {
        assert!(!view.join(format!("many/none-{n}")).exists());
    }
    assert_eq!(view.fuse_requests(), before);
    assert_alike(&fixture.shared(), view.path(), &["many"], &[Action::ListInParts { part: 33_333 }]);
    view.unmount();
}

#[test]
fn a_stream_can_seek_back_to_any_entry() {
    needs_mounts!();
    let fixture = Fixture::new("seekdir");
    for n in 0..500 {
        fixture.file(&format!("dir/{}{n}", "long-name-".repeat(n % 20)), "", 0o644);
    }
    let view = View::of(&fixture.shared());
    let actions = [Action::ListInParts { part: 1 }, Action::ListInParts { part: 77 }, Action::List];
    assert_alike(&fixture.shared(), view.path(), &["dir", ""], &actions);
    view.unmount();
}

#[test]
fn an_empty_directory_and_the_root() {
    needs_mounts!();
    let fixture = Fixture::new("emptydir");
    fixture.dir("empty");
    let view = View::of(&fixture.shared());
    let actions = [Action::List, Action::Stat { follows: true }, Action::Identity, Action::Filesystem];
    assert_alike(&fixture.shared(), view.path(), &["empty", "empty/", "empty/.."], &actions);
    assert_alike(&fixture.shared(), view.path(), &[""], &[Action::List, Action::Filesystem]);
    view.unmount();
}
