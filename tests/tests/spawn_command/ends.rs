//! Exit statuses, signals, and that nothing is left behind.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use headwater_tests::harness::{Fixture, processes_using, wait_until};
use rustix::process::{Pid, Signal, kill_process};

use super::{command, spawn};

/// How long anything may take that should happen at once, on a machine that is busy.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn the_status_is_that_of_the_first_that_fails() {
    let fixture = Fixture::new("spawn-status");
    let flag = fixture.path("flag").display().to_string();
    // The last one fails first; the other waits for that.
    let script = format!(
        "case {{rank}} in 0) until [ -e {flag} ]; do sleep 0.01; done; sleep 0.3; exit 4;; \
                          1) exit 0;; 2) touch {flag}; exit 7;; esac"
    );
    assert_eq!(spawn(&["-n", "3", "--", "sh", "-c", &script]).status, Some(7));
    for (script, expected) in [("exit 0", 0), ("exit 255", 255), ("kill -TERM $$", 143), ("kill -KILL $$", 137)] {
        for from in ["exec", "zygote"] {
            let seen = spawn(&["-n", "4", "--from", from, "--", "sh", "-c", script]);
            assert_eq!(seen.status, Some(expected), "{script} by {from}: {}", seen.err);
        }
    }
}

#[test]
fn what_can_not_be_started_is_reported_as_a_shell_does() {
    let fixture = Fixture::new("spawn-missing");
    let plain = fixture.file("plain", "", 0o644).display().to_string();
    let text = fixture.file("text", "echo x\n", 0o755).display().to_string();
    for (program, status, printed) in [
        ("no-such-program", 127, "no-such-program: command not found"),
        ("/no/such/program", 127, "/no/such/program: No such file or directory"),
        (plain.as_str(), 126, "Permission denied"),
        ("/etc", 126, "/etc: Is a directory"),
        (text.as_str(), 126, "cannot execute"),
    ] {
        let seen = spawn(&["-n", "4", "--", program]);
        assert_eq!(seen.status, Some(status), "{program}");
        assert!(seen.out.is_empty() && seen.err.contains(printed), "{program}: {}", seen.err);
    }
    for args in [&["-n", "0", "true"][..], &["--from", "magic", "true"], &["--cores", "x", "true"], &[]] {
        assert_eq!(spawn(args).status, Some(125), "{args:?}");
    }
}

#[test]
fn a_failure_ends_the_others_on_request() {
    let seen = spawn(&["-n", "3", "--kill-on-failure", "--", "sh", "-c", "[ {rank} != 2 ] || exit 3; exec sleep 1000"]);
    assert_eq!(seen.status, Some(3), "{}", seen.err);
}

#[test]
fn what_they_have_started_ends_too() {
    let fixture = Fixture::new("spawn-others");
    let script = format!(
        "[ {{rank}} != 1 ] || {{ until [ -e {0} ]; do sleep 0.01; done; exit 3; }}; touch {0}; STAY={0} sleep 1000; true",
        fixture.path("flag").display()
    );
    let seen = spawn(&["-n", "2", "--kill-on-failure", "--", "sh", "-c", &script]);
    assert_eq!(seen.status, Some(3), "{}", seen.err);
    assert_eq!(processes_using(&fixture.shared()), []);
}

/// A command whose processes have all reported that they run.
fn started(args: &[&str], processes: usize) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = command(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it can be started");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    for _ in 0..processes {
        line.clear();
        out.read_line(&mut line).expect("a line arrives");
        assert!(line.ends_with("runs\n"), "{line}");
    }
    (child, out)
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it is this process's child");
}

#[test]
fn signals_are_passed_on() {
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::USR1, "USR1"), (Signal::HUP, "HUP"), (Signal::INT, "INT")] {
        let script = format!("trap 'echo got; kill -9 $!; exit 5' {name}; sleep 1000 & echo runs; wait");
        let (mut child, mut out) = started(&["-n", "3", "--from", "zygote", "--", "bash", "-c", &script], 3);
        send(&child, signal);
        let mut rest = String::new();
        out.read_to_string(&mut rest).expect("text");
        assert_eq!(rest.lines().filter(|line| line.ends_with(": got")).count(), 3, "{name}: {rest}");
        assert_eq!(child.wait().expect("a child").code(), Some(5), "{name}");
    }
}

#[test]
fn a_signal_that_ends_the_processes_ends_it_too() {
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15)] {
        let (mut child, _out) = started(&["-n", "3", "--", "sh", "-c", "echo runs; exec sleep 1000"], 3);
        send(&child, signal);
        assert_eq!(child.wait().expect("a child").signal(), Some(number));
    }
    let (mut child, _out) = started(&["-n", "1", "--", "sh", "-c", "echo runs; kill -INT $$"], 1);
    assert_eq!(child.wait().expect("a child").code(), Some(130));
}

#[test]
fn a_second_interrupt_kills() {
    let script = "trap 'echo interrupted' INT; echo runs; while :; do sleep 0.1; done";
    // The second shell's output stays open in a process that is not interrupted.
    let script = format!("trap '' INT; [ {{rank}} = 0 ] || sleep 1000 & {script}");
    let (mut child, mut out) = started(&["-n", "2", "--", "bash", "-c", &script], 2);
    send(&child, Signal::INT);
    let mut line = String::new();
    out.read_line(&mut line).expect("a line arrives");
    assert!(line.ends_with("interrupted\n"), "{line}");
    // Two of them arrive within the time, however busy the machine is.
    let ends = wait_until(SOON, || {
        send(&child, Signal::INT);
        child.try_wait().expect("a child").is_some()
    });
    assert!(ends, "it still runs");
    assert_eq!(child.wait().expect("a child").code(), Some(137));
}

/// A script of this directory whose processes stay, and have a child each.
fn staying(fixture: &Fixture) -> String {
    let text = "#!/bin/bash\ntrap '' HUP INT TERM PIPE\nSTAY=\"$0\" sleep 1000 &\necho runs\nwait\n";
    fixture.file("stay", text, 0o755).display().to_string()
}

/// Whether no process uses the directory any more.
fn is_left(directory: &Path) -> bool {
    wait_until(SOON, || processes_using(directory).is_empty())
}

#[test]
fn killed_it_leaves_nothing() {
    for from in ["exec", "zygote"] {
        let fixture = Fixture::new("spawn-killed");
        let script = staying(&fixture);
        let (mut child, _out) = started(&["-n", "4", "--from", from, "--", &script, "{rank}"], 4);
        assert!(!processes_using(&fixture.shared()).is_empty());
        send(&child, Signal::KILL);
        child.wait().expect("a child");
        assert!(is_left(&fixture.shared()), "by {from}: {:?}", processes_using(&fixture.shared()));
    }
}

#[test]
fn killed_where_it_spawns_it_leaves_nothing() {
    let fixture = Fixture::new("spawn-part");
    let script = staying(&fixture);
    let (mut child, _out) = started(&["-n", "4", "--", &script, "{rank}"], 4);
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).expect("it runs");
    let worker: i32 = children.trim().parse().expect("it has one child");
    kill_process(Pid::from_raw(worker).expect("a number"), Signal::KILL).expect("it is the user's");
    assert_eq!(child.wait().expect("a child").code(), Some(137));
    assert!(is_left(&fixture.shared()), "{:?}", processes_using(&fixture.shared()));
}
