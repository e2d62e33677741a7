//! Ordinary users mount too, and no other user gets in.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use headwater_tests::harness::{Fixture, Mechanism, Program, user, wait_until};

use crate::MOUNTED;
use headwater_tests::needs_root;

/// Lists everything, and runs programs of the tree.
fn program(fixture: &Fixture) -> Program {
    fixture.file("tree/sub/file", "content\n", 0o644);
    fixture.file("tree/tool", "#!/bin/sh\necho tool $0\n", 0o755);
    fixture.link("sub/file", "tree/link");
    fixture.library("lib/libx.so", "x", &[]);
    let app = fixture.build("loader.c", "bin/app", &["-Wl,-rpath,$ORIGIN/../lib"]);
    let tree = fixture.path("tree").display().to_string();
    Program::shell(&format!(
        "find {tree} -printf '%P %y %s %m %n %l\\n' | sort; cat {tree}/link {tree}/none; {tree}/tool; \
         {} open=libx.so call=x where=x self; id -u; id -g",
        app.display()
    ))
}

#[test]
fn an_ordinary_user_gets_the_same() {
    needs_root!();
    let fixture = Fixture::new("ordinary");
    let program = program(&fixture);
    for via in MOUNTED {
        let session = fixture.headwater().via(via).behind(&fixture.commands_of(&user::ORDINARY)).same_output(&program);
        assert!(session.output.stdout.ends_with("1\n1\n"), "{:?}", session.output);
    }
}

#[test]
fn an_ordinary_user_on_several_nodes() {
    needs_root!();
    let fixture = Fixture::new("ordinaries");
    fixture.file("data", vec![b'x'; 3 << 20], 0o644);
    let script =
        format!("cksum {0}; cksum {0}; ls {1} | wc -l", fixture.path("data").display(), fixture.shared().display());
    let headwater = fixture.headwater().via(Mechanism::Namespace).on(3, 2);
    let session = headwater.behind(&fixture.commands_of(&user::ORDINARY)).run(&Program::shell(&script));
    let plain = Program::shell(&script).run();
    let mut lines: Vec<&str> = session.output.stdout.lines().collect();
    lines.sort_unstable();
    let mut expected: Vec<&str> = plain.stdout.lines().collect();
    expected.sort_unstable();
    let expected: Vec<&str> = expected.into_iter().flat_map(|line| [line; 6]).collect();
    assert_eq!(lines, expected, "{:?}", session.output);
    assert_eq!(session.number("shared_fs.files_read"), 1);
}

#[test]
fn what_an_ordinary_user_writes_is_in_the_source_file() {
    needs_root!();
    let fixture = Fixture::new("userwrites");
    fixture.file("own/existing", "old\n", 0o644);
    for name in ["own", "own/existing"] {
        std::os::unix::fs::chown(fixture.path(name), Some(1), Some(1)).expect("root may");
    }
    fixture.file("roots/file", "roots\n", 0o644);
    let shared = fixture.shared().display().to_string();
    let script = format!(
        "cd {shared}/own; cat existing; echo new > existing; cat existing; echo made > made; mkdir d; mv made d/moved; \
         cat d/moved; ls; echo no > ../roots/file; echo $?; rm -f ../roots/file; echo $?; chmod 600 existing; id -u"
    );
    let session = fixture
        .headwater()
        .via(Mechanism::Namespace)
        .behind(&fixture.commands_of(&user::ORDINARY))
        .run(&Program::shell(&script));
    assert!(session.output.stdout.starts_with("old\nnew\nmade\nd\nexisting\n"), "{:?}", session.output);
    assert_eq!(fs::read_to_string(fixture.path("own/existing")).expect("it stays"), "new\n");
    assert_eq!(fs::read_to_string(fixture.path("roots/file")).expect("it stays"), "roots\n");
    let moved = fs::metadata(fixture.path("own/d/moved")).expect("made");
    assert_eq!((moved.uid(), moved.gid()), (1, 1), "made by the user, not by the daemon");
    assert_eq!(fs::metadata(fixture.path("own/existing")).expect("it stays").mode() & 0o777, 0o600);
}

/// Paths that belong to a session: its store, its mount, its sockets.
fn session_paths(store: &Path) -> Vec<PathBuf> {
    let find = Program::new("find").arg(store).args(["-mindepth", "1", "-maxdepth", "4"]).run();
    find.stdout.lines().map(PathBuf::from).collect()
}

#[test]
fn a_second_user_cannot_enter() {
    needs_root!();
    let fixture = Fixture::new("other_user");
    fixture.file("data", "data\n", 0o644);
    let reached = fixture.outside("reached");
    let script = format!(
        "cat {}; : > {1}; for n in $(seq 600); do test -e {1}.go && break; sleep 0.1; done",
        fixture.path("data").display(),
        reached.display()
    );
    let meeting = fixture.outside("");
    fs::set_permissions(&meeting, fs::Permissions::from_mode(0o1777)).expect("an own directory");
    for via in MOUNTED {
        for name in ["reached", "reached.go"] {
            let _ = fs::remove_file(fixture.outside(name));
        }
        let started =
            fixture.headwater().via(via).behind(&fixture.commands_of(&user::ORDINARY)).start(&Program::shell(&script));
        assert!(wait_until(Duration::from_secs(20), || reached.exists()), "{via:?}: the program starts");
        let daemon = started.daemons()[0];
        let mut paths = session_paths(started.store());
        paths.extend(started.view().map(PathBuf::from));
        assert!(paths.iter().any(|path| path.ends_with("sock")), "{paths:?}");
        // The other user reads from within the session's own mount namespace.
        let inside = ["nsenter", "--mount", "--target", &daemon.to_string()].map(str::to_owned);
        let other_user: Vec<String> = inside.into_iter().chain(user::OTHER_USER.map(str::to_owned)).collect();
        let tries = r#"
            for p in "$@"; do
                cat "$p" >/dev/null 2>&1 && echo "read $p"
                ls "$p"/ >/dev/null 2>&1 && echo "listed $p"
                (: >> "$p") 2>/dev/null && echo "wrote $p"
                python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])' "$p" 2>/dev/null && echo "connected $p"
            done
            cat /proc/$0/environ /proc/$0/maps 2>/dev/null && echo "read the daemon's memory"
            echo done"#;
        // The base directory, `headwater-UID`, prevents access.
        let attempt =
            Program::new("sh").args(["-c", tries, &daemon.to_string()]).args(&paths).behind(&other_user).run();
        fs::write(fixture.outside("reached.go"), "").expect("an own directory");
        assert_eq!(attempt.stdout, "done\n", "{via:?}: {attempt:?}");
        let session = started.finish();
        assert_eq!(session.output.stdout, "data\n", "{via:?}: {:?}", session.output);
    }
}

#[test]
fn a_second_user_cannot_enter_a_view_of_roots() {
    needs_root!();
    let fixture = Fixture::new("rootsview");
    fixture.file("data", "data\n", 0o644);
    let view = headwater_tests::harness::View::of(&fixture.shared());
    let attempt = Program::new("cat").arg(view.join("data")).behind(user::OTHER_USER).run();
    assert_ne!(attempt.status, 0, "{attempt:?}");
    assert_eq!(attempt.stdout, "");
    let own = Program::new("cat").arg(view.join("data")).run();
    assert_eq!(own.stdout, "data\n");
    view.unmount();
}
