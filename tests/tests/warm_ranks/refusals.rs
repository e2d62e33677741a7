//! Programs that come from no zygote: they are executed, and the first of each node reports the reason.

use headwater_tests::harness::{Fixture, Program, has_program, headwater_binary, skipped};

use crate::{PYTHON, fixture, from_zygotes, python, warm};

/// Ranks of two nodes have the same output as without zygotes, and a line for each node has the reason.
fn check(fixture: &Fixture, imports: &str, program: &Program, reason: &str) {
    let exec = fixture.headwater().on(2, 2).run(program);
    let zygote = warm(fixture, imports).on(2, 2).run(program);
    zygote.output.assert_same(&exec.output);
    assert_eq!(from_zygotes(&zygote), 0, "{reason}: {:?}", zygote.output);
    let lines: Vec<&str> = zygote.messages.lines().collect();
    let expected = |line: &&str| line.starts_with("headwater: warning: ") && line.contains(reason);
    assert!(lines.len() == 2 && lines.iter().all(expected), "{reason}: {lines:?}");
}

#[test]
fn the_reason_is_reported_once_a_node() {
    let Some(fixture) = fixture() else { return };
    fixture.file(
        "threads.py",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(5,), daemon=True).start()\n",
        0o644,
    );
    fixture.file("sockets.py", "import socket\nkept = socket.socket()\n", 0o644);
    fixture.file("app.sh", "#!/bin/sh\necho $0 $HEADWATER_NODES\n", 0o755);
    let plain = python(&fixture, &["-c", "import os; os.write(1, b'ok\\n')"]);
    check(&fixture, "threads", &plain, "thread");
    check(&fixture, "sockets", &plain, "it has opened socket:");
    check(&fixture, "json", &Program::new(fixture.path("app.sh")), "is not forked from a zygote");
    let program = Program::new(fixture.build("by_pointer.c", "static", &["-static"])).arg(PYTHON);
    check(&fixture, "json", &program, "static");
    let inspected = python(&fixture, &["-c", "import os; os.write(1, b'ok\\n')"]).env("PYTHONVERBOSE", "");
    let exec = fixture.headwater().on(1, 1).run(&inspected);
    assert_eq!(exec.output.status, 0);
}

#[test]
fn modules_that_are_not_there_are_an_error() {
    let Some(fixture) = fixture() else { return };
    let program = python(&fixture, &["-c", "import os; os.write(1, b'begun\\n')"]);
    let session = warm(&fixture, "json,nosuchmod,json.none").on(2, 2).run(&program);
    assert_eq!((session.output.status, session.output.stdout.as_str()), (125, ""), "{}", session.messages);
    let line = "headwater: error: --warm-imports: nosuchmod: ModuleNotFoundError: No module named 'nosuchmod'; \
                json.none: ModuleNotFoundError: No module named 'json.none'\n";
    assert_eq!(session.messages, line.repeat(2));
}

#[test]
fn modules_that_can_not_be_imported_are_left_to_the_ranks() {
    let Some(fixture) = fixture() else { return };
    fixture.file("fails.py", "import os\nif 'FAILS' in os.environ:\n    raise OSError('no such\\ndevice')\n", 0o644);
    fixture.file("needs.py", "import nosuchmod\n", 0o644);
    let script = "import fails, json, sys; sys.stdout.write('fine\\n')";
    let program = python(&fixture, &["-c", script]).env("FAILS", "");
    let exec = fixture.headwater().on(1, 1).run(&program);
    let zygote = warm(&fixture, "fails,needs,json").on(1, 1).run(&program);
    let own = |name: &str, why: &str| {
        format!("headwater: warning: {name} is not imported warm: {why}. Each rank imports it itself\n")
    };
    let expected = own("fails", "OSError: no such") + &own("needs", "ModuleNotFoundError: No module named 'nosuchmod'");
    zygote.output.assert_same(&exec.output);
    assert_eq!((from_zygotes(&zygote), zygote.messages), (1, expected));
}

#[test]
fn tables_that_are_none_are_reported() {
    let Some(fixture) = fixture() else { return };
    let program = python(&fixture, &["-c", "import os; os.write(1, b'begun\\n')"]);
    let table = |text: &str| {
        let path = fixture.file("table", text, 0o644).display().to_string();
        warm(&fixture, "json").option("--warm-reseed").option(&path).on(1, 2).run(&program)
    };
    let session = table("json pass\n");
    assert_ne!(session.output.status, 0);
    assert_eq!(session.output.stdout, "");
    let session = table("json: for\n");
    assert_eq!((from_zygotes(&session), session.output.stdout.as_str()), (0, "begun\nbegun\n"));
    assert!(session.messages.contains("<how json is reseeded>"), "{}", session.messages);
}

#[test]
fn absent_programs_are_reported_as_ever() {
    let Some(fixture) = fixture() else { return };
    let program = Program::new(PYTHON).args(["-c", "import os; os.execv('/nonexistent', ['x'])"]);
    let (exec, zygote) = (fixture.headwater().run(&program), warm(&fixture, "json").run(&program));
    assert_eq!(exec.output.status, zygote.output.status);
    assert_eq!(exec.output.stderr.lines().last(), zygote.output.stderr.lines().last());
}

#[test]
fn a_terminal_stays_with_the_process_that_can_read_it() {
    let Some(fixture) = fixture() else { return };
    if !has_program("script") {
        return skipped("script is not installed");
    }
    let run = format!(
        "{} run --via audit --shared {} --ppn 2 --warm-imports json -- {PYTHON} -c 'import os; print(os.isatty(0))'",
        headwater_binary().display(),
        fixture.shared().display()
    );
    let output = Program::new("script").args(["-qec", &run, "/dev/null"]).run();
    let mut lines: Vec<&str> = output.stdout.lines().map(str::trim).filter(|line| line.len() < 10).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["False", "True"], "{output:?}");
    assert!(output.stdout.contains("standard input is a terminal"), "{output:?}");
}
