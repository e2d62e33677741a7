//! A process that may execute a file, by whatever right, gets it from the store.

use std::fs;
use std::os::unix::fs::chown;

use headwater_tests::harness::{Fixture, Program, is_root};

const USER: u32 = 65533;

/// Eight processes that execute each of these files twice; the files are read once and no source file is used.
fn check(fixture: &Fixture, user: &[&str], modes: &[u32]) {
    for mode in modes {
        let (program, script) = (format!("bin/{mode:o}"), format!("bin/script-{mode:o}"));
        let file = fixture.file(&program, fs::read("/bin/true").expect("a program of the system"), *mode);
        let script = fixture.file(&script, format!("#!{}\n", file.display()), *mode);
        if is_root() {
            for path in [&file, &script] {
                chown(path, None, Some(USER)).expect("root may");
            }
        }
        let twice =
            Program::shell(&format!("for f in {0} {1} {0} {1}; do $f || exit; done", file.display(), script.display()));
        let session = fixture.headwater().behind(user).on(4, 2).run(&twice);
        assert_eq!((session.output.status, session.fallbacks()), (0, 0), "{mode:o}: {session:?}");
        assert_eq!(session.number("shared_fs.files_read"), 2, "{mode:o}: {session:?}");
    }
}

#[test]
fn the_owner_may() {
    check(&Fixture::new("rights-owner"), &[], &[0o755, 0o750, 0o700, 0o711]);
}

#[test]
fn the_group_may() {
    if !is_root() {
        return headwater_tests::harness::skipped("only root makes files of another group");
    }
    let user = ["setpriv", "--reuid=65533", "--regid=65534", "--groups=1,65533,2"];
    check(&Fixture::new("rights-group"), &user, &[0o755, 0o750, 0o754]);
}

/// A process without the right gets the source file's error.
#[test]
fn another_may_not() {
    if !is_root() {
        return headwater_tests::harness::skipped("only root becomes another user");
    }
    let fixture = Fixture::new("rights-none");
    for mode in [0o700, 0o744, 0o754] {
        let file = fixture.file("bin/program", fs::read("/bin/true").expect("a program of the system"), mode);
        let user = ["setpriv", "--reuid=65533", "--clear-groups", "--regid=65534"];
        let program = Program::shell(&file.display().to_string());
        let (plain, session) = (program.behind(user).run(), fixture.headwater().behind(&user).run(&program));
        session.output.assert_same(&plain);
        assert_eq!(plain.status, 126, "{mode:o}: {plain:?}");
    }
}
