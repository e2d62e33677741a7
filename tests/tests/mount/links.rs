//! Symbolic links: none leads out of a mount below a prefix, if it did not lead out of its source.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use headwater_tests::harness::{Fixture, Mechanism, Program, View};
use headwater_tests::model::{Action, Operation, execute};

use crate::assert_alike;
use headwater_tests::needs_mounts;

#[test]
fn relative_dangling_and_looping_links() {
    needs_mounts!();
    let fixture = Fixture::new("rellinks");
    fixture.file("d/e/file", "content", 0o644);
    for (target, name) in [
        ("d/e/file", "to-file"),
        ("d", "to-dir"),
        ("../file", "d/up"),
        ("../../to-dir/./e/../e/file", "d/e/around"),
        ("nowhere/at/all", "dangling"),
        ("loop", "loop"),
        ("two", "one"),
        ("one", "two"),
        ("d/e/file/", "slash"),
        ("to-dir/", "dir-slash"),
    ] {
        fixture.link(target, name);
    }
    fixture.link("a/".repeat(1500) + "b", "long");
    (0..45).for_each(|n| {
        drop(fixture.link(if n == 0 { "d".into() } else { format!("chain{}", n - 1) }, &format!("chain{n}")))
    });
    let view = View::of(&fixture.shared());
    let paths = [
        "to-file",
        "to-dir",
        "to-dir/",
        "to-dir/e/file",
        "d/up",
        "d/e/around",
        "dangling",
        "dangling/",
        "loop",
        "loop/x",
        "one",
        "two/x",
        "slash",
        "dir-slash",
        "dir-slash/e",
        "long",
        "chain39",
        "chain40",
        "chain44",
        "to-dir/../to-file",
    ];
    let actions = [
        Action::Readlink,
        Action::Stat { follows: true },
        Action::Stat { follows: false },
        Action::Identity,
        Action::ReadAll { piece: 100 },
        Action::Open { flags: rustix::fs::OFlags::NOFOLLOW.bits() },
    ];
    for _ in 0..2 {
        assert_alike(&fixture.shared(), view.path(), &paths, &actions);
    }
    view.unmount();
}

#[test]
fn an_absolute_link_stays_in_the_mount() {
    needs_mounts!();
    let fixture = Fixture::new("abslinks");
    fixture.file("d/file", "content", 0o644);
    fixture.link(fixture.path("d/file"), "to-file");
    fixture.link(fixture.path("d"), "d/e/to-dir");
    fixture.link(fixture.path("none"), "dangling");
    fixture.link(fixture.shared(), "to-root");
    fixture.link(fixture.shared().join("./d/../d//file"), "unclean");
    fixture.link("/etc/passwd", "out");
    let view = View::of(&fixture.shared());
    for path in ["to-file", "d/e/to-dir/file", "to-root/d/file", "unclean", "to-root/to-root/to-file"] {
        let real = fs::canonicalize(view.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
        assert_eq!(real, view.join("d/file"), "{path}");
        let read = Operation::new(path, Action::ReadAll { piece: 100 });
        assert_eq!(execute(view.path(), &read), execute(&fixture.shared(), &read));
    }
    for link in ["to-file", "d/e/to-dir", "dangling", "to-root", "unclean"] {
        let target = fs::read_link(view.join(link)).expect("a link");
        assert!(target.is_relative(), "{link} leads to {}", target.display());
        let size = fs::symlink_metadata(view.join(link)).expect("a link").len();
        assert_eq!(size, target.as_os_str().len() as u64, "the size is the shown target's: {link}");
    }
    assert!(fs::metadata(view.join("dangling")).is_err());
    assert_eq!(fs::read_link(view.join("out")).expect("a link"), Path::new("/etc/passwd"), "out is out");
    view.unmount();
}

#[test]
fn links_in_a_namespace_are_as_they_are() {
    needs_mounts!();
    let fixture = Fixture::new("nslinks");
    fixture.file("d/file", "content", 0o644);
    fixture.link(fixture.path("d/file"), "absolute");
    fixture.link("d/../absolute", "relative");
    symlink(fixture.shared(), fixture.outside("around")).expect("an own directory");
    fixture.link(fixture.outside("around").join("d"), "through");
    let shared = fixture.shared().display().to_string();
    let script = format!(
        "cd {shared}; for l in absolute relative through {0}; do readlink $l; realpath $l; stat -c '%s %i' $l; done; \
         cat absolute relative through/file {0}/relative",
        fixture.outside("around").display()
    );
    fixture.headwater().via(Mechanism::Namespace).same_output(&Program::shell(&script));
}

#[test]
fn a_link_is_read_once() {
    needs_mounts!();
    let fixture = Fixture::new("cachedlink");
    fixture.link("nowhere", "link");
    let view = View::of(&fixture.shared());
    let read = || fs::read_link(view.join("link")).expect("a link");
    read();
    let before = view.fuse_requests();
    (0..100).for_each(|_| assert_eq!(read(), Path::new("nowhere")));
    assert_eq!(view.fuse_requests(), before);
    view.unmount();
}
