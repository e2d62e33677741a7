//! Programs that come from no zygote: they are executed, and the first of each node says why.

use headwater_tests::harness::{Fixture, Program, has_program, headwater_binary, skipped};

use crate::{PYTHON, fixture, from_zygotes, python, warm};

/// Ranks of two nodes do what they do without zygotes, and a line for each node has the reason.
fn check(fixture: &Fixture, imports: &str, program: &Program, reason: &str) {
    let exec = fixture.headwater().on(2, 2).run(program);
    let zygote = warm(fixture, imports).on(2, 2).run(program);
    zygote.output.assert_same(&exec.output);
    assert_eq!(from_zygotes(&zygote), 0, "{reason}: {:?}", zygote.output);
    let said: Vec<&str> = zygote.messages.lines().collect();
    let expected = |line: &&str| line.starts_with("headwater: warning: ") && line.contains(reason);
    assert!(said.len() == 2 && said.iter().all(expected), "{reason}: {said:?}");
}

#[test]
fn the_reason_is_told_once_a_node() {
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
    check(&fixture, "json", &Program::new(fixture.path("app.sh")), "no zygote");
    let program = Program::new(fixture.build("by_pointer.c", "static", &["-static"])).arg(PYTHON);
    check(&fixture, "json", &program, "static");
    let inspected = python(&fixture, &["-c", "import os; os.write(1, b'ok\\n')"]).env("PYTHONVERBOSE", "");
    let exec = fixture.headwater().on(1, 1).run(&inspected);
    assert_eq!(exec.output.status, 0);
}

#[test]
fn programs_that_are_not_there_say_so_as_ever() {
    let Some(fixture) = fixture() else { return };
    let program = Program::new(PYTHON).args(["-c", "import os; os.execv('/nonexistent', ['x'])"]);
    let (exec, zygote) = (fixture.headwater().run(&program), warm(&fixture, "json").run(&program));
    assert_eq!(exec.output.status, zygote.output.status);
    assert_eq!(exec.output.stderr.lines().last(), zygote.output.stderr.lines().last());
}

#[test]
fn a_terminal_stays_with_who_can_read_it() {
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
