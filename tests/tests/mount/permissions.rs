//! A mount denies every read that the user's own open would be denied, and allows every other.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

use headwater_tests::harness::{Fixture, Mechanism, Output, Program, Session, View, user};
use headwater_tests::model::Action;

use crate::{MOUNTED, assert_alike};
use headwater_tests::needs_root;

/// Files and directories with every mode that matters, of the ordinary user and of root.
fn fixture() -> Fixture {
    let fixture = Fixture::new("modes");
    for owner in [0, 1] {
        for mode in [0o000, 0o004, 0o040, 0o400, 0o100, 0o111, 0o555, 0o644, 0o200, 0o777, 0o4755] {
            let name = format!("of-{owner}/file-{mode:03o}");
            fixture.file(&name, "#!/bin/sh\necho ran\n", mode);
            for name in ["x", "sub/y"] {
                fixture.file(&format!("of-{owner}/dir-{mode:03o}/{name}"), name, 0o644);
            }
        }
        for entry in walk(&fixture, &format!("of-{owner}")) {
            chown(&entry, Some(owner), Some(owner)).expect("root may");
        }
        for mode in [0o000, 0o004, 0o040, 0o400, 0o100, 0o111, 0o555, 0o644, 0o200, 0o777, 0o4755] {
            let dir = fixture.path(&format!("of-{owner}/dir-{mode:03o}"));
            fs::set_permissions(dir, fs::Permissions::from_mode(mode & 0o777)).expect("root may");
        }
    }
    // A mode that a change of owner took away.
    for entry in walk(&fixture, "of-1").into_iter().chain(walk(&fixture, "of-0")) {
        if entry.ends_with("file-4755") {
            fs::set_permissions(entry, fs::Permissions::from_mode(0o4755)).expect("root may");
        }
    }
    fixture
}

fn walk(fixture: &Fixture, name: &str) -> Vec<std::path::PathBuf> {
    let find = Program::new("find").arg(fixture.path(name)).run();
    find.stdout.lines().map(Into::into).collect()
}

/// Every operation that a shell can try on every name, with its result.
fn tries(fixture: &Fixture) -> Program {
    let script = r#"
        cd "$0"
        for f in of-*/file-* of-*/dir-* of-*/dir-*/x of-*/dir-*/sub/y of-*/dir-*/none; do
            for t in -r -w -x -e -d -f; do test $t "$f" && printf ' %s' "$t"; done
            cat "$f" >/dev/null 2>&1; printf ' cat %s' $?
            ls "$f" >/dev/null 2>&1; printf ' ls %s' $?
            # An ordinary user's daemon can't read what may be executed and not read.
            if test -r "$f"; then "$f" >/dev/null 2>&1; printf ' run %s' $?; fi
            (cd "$f") >/dev/null 2>&1; printf ' cd %s' $?
            stat -c " %a %s %F $f" "$f" 2>&1
        done
        find . 2>&1 | sort | cksum
        echo "user $(id -u)"
    "#;
    Program::new("sh").args(["-c", script]).arg(fixture.shared()).env("LC_ALL", "C")
}

fn compare(session: &Session, plain: Output, via: Mechanism) {
    // A read-only mount allows no writing by any user, nor does a user namespace to files whose owner has no mapping.
    let is_writing_alike = via == Mechanism::Namespace && plain.stdout.contains("user 0\n");
    let compared = |output: Output| {
        let stdout = if is_writing_alike { output.stdout } else { output.stdout.replace(" -w", "") };
        Output { stdout, ..output }
    };
    println!("{via:?}");
    compared(session.output.clone()).assert_same(&compared(plain));
    session.assert_served();
}

#[test]
fn as_root() {
    needs_root!();
    let fixture = fixture();
    for via in MOUNTED {
        compare(&fixture.headwater().via(via).run(&tries(&fixture)), tries(&fixture).run(), via);
    }
}

#[test]
fn as_an_ordinary_user() {
    needs_root!();
    let fixture = fixture();
    let prefix = fixture.commands_of(&user::ORDINARY);
    for via in MOUNTED {
        let plain = tries(&fixture).behind(&prefix).run();
        assert!(plain.stdout.lines().count() > 60, "{plain:?}");
        compare(&fixture.headwater().via(via).behind(&prefix).run(&tries(&fixture)), plain, via);
    }
}

#[test]
fn types_modes_and_owners_are_those_of_the_source() {
    needs_root!();
    let fixture = fixture();
    let view = View::of(&fixture.shared());
    let names: Vec<String> = ["of-0", "of-1"]
        .iter()
        .flat_map(|name| walk(&fixture, name))
        .map(|path| path.strip_prefix(fixture.shared()).expect("below it").display().to_string())
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert!(names.len() > 60);
    let actions = [Action::Stat { follows: false }, Action::Identity, Action::Access { mode: 1 }];
    assert_alike(&fixture.shared(), view.path(), &names, &actions);
    view.unmount();
}

/// A file that one node's user may read and another's may not must not depend on which node reads it.
#[test]
fn a_file_that_turns_unreadable_returns_its_error() {
    needs_root!();
    let fixture = Fixture::new("denied");
    let secret = fixture.file("secret", "secret", 0o600);
    let script = format!("cat {}; echo $?", secret.display());
    let headwater = fixture.headwater().via(Mechanism::Namespace).on(2, 1);
    let session = headwater.behind(&fixture.commands_of(&user::ORDINARY)).run(&Program::shell(&script));
    assert_eq!(session.output.stdout, "1\n1\n", "{:?}", session.output);
    assert_eq!(session.output.stderr.matches("Permission denied").count(), 2, "{:?}", session.output);
}
