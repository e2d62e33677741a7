//! Signals, and cleaning up after each kind of end.

mod site;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use site::running::{Running, processes_called};
use site::terminal::{on_terminal, terminal};
use site::{Site, eventually, mechanisms, text};

/// Returns a script that prints `ready`, and waits so that a signal interrupts it at once. Its traps end what it waits for
/// by SIGKILL: until `sleep` is executed, its process has the traps, too.
fn waiting(traps: &str) -> String {
    format!("{traps}; sleep 100 & echo ready; while :; do wait; done")
}

#[test]
fn signals_are_passed_on() {
    let site = Site::new();
    let signals = [
        (Signal::TERM, "TERM"),
        (Signal::INT, "INT"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::WINCH, "WINCH"),
        (Signal::XCPU, "XCPU"),
        (Signal::ALARM, "ALRM"),
        (Signal::URG, "URG"),
        (Signal::ABORT, "ABRT"),
    ];
    for (via, (signal, name)) in mechanisms().iter().flat_map(|via| signals.map(|signal| (via, signal))) {
        let script = waiting(&format!("trap 'echo {name}; kill -9 $!; exit 9' {name}"));
        let command = site.command(&["--via", via, "--nodes", "2", "--", "sh", "-c", &script]);
        let running = Running::start(command, 2);
        running.signal(signal);
        assert_eq!(running.end(), (Some(9), format!("{name}\n{name}\n")), "{via}");
    }
    site.assert_clean();
}

#[test]
fn an_untrapped_signal_ends_the_program_and_the_session() {
    let site = Site::new();
    for via in mechanisms() {
        let running = Running::start(site.command(&["--via", via, "--", "sh", "-c", "echo ready; exec sleep 100"]), 1);
        running.signal(Signal::TERM);
        assert_eq!(running.ended_by(), Some(15), "{via}");
        site.assert_clean();
    }
}

#[test]
fn a_timer_of_the_caller_ends_the_program() {
    let site = Site::new();
    for via in mechanisms() {
        let headwater = site.command(&["--via", via, "--", "sleep", "100"]);
        let mut command = Command::new("perl");
        command.args(["-e", "alarm 1; exec @ARGV"]).arg(headwater.get_program()).args(headwater.get_args());
        command.envs(headwater.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let started = Instant::now();
        assert_eq!(command.status().unwrap().signal(), Some(14), "{via}");
        assert!(started.elapsed() < Duration::from_secs(50), "{via}: the program ended by itself");
        site.assert_clean();
    }
}

#[test]
fn ignored_signals_stay_ignored() {
    let site = Site::new();
    let headwater = site.command(&["--", "sh", "-c", "echo ready; sleep 1; echo survived"]);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(headwater.get_program()).args(headwater.get_args());
    for (name, value) in headwater.get_envs().filter_map(|(n, v)| Some((n, v?))) {
        command.env(name, value);
    }
    let running = Running::start(command, 1);
    running.signal(Signal::HUP);
    assert_eq!(running.end(), (Some(0), "survived\n".into()));
    site.assert_clean();
}

fn next_line(output: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    line
}

#[test]
fn a_key_of_the_terminal_reaches_each_process_once() {
    let site = Site::new();
    let script = waiting("trap 'n=$((n + 1))' INT; trap 'echo $n times; kill -9 $!; exit 9' USR1");
    let headwater = site.command(&["--", "sh", "-c", &script]);
    let (mut master, slave) = terminal();
    let running = Running::start(on_terminal(&headwater, &[], slave), 1);
    for _ in 0..3 {
        master.write_all(b"\x03").unwrap();
        // Long enough to distinguish forwarded signals from those of the terminal.
        std::thread::sleep(Duration::from_millis(200));
    }
    running.signal(Signal::USR1);
    assert_eq!(running.end(), (Some(9), "3 times\n".into()));
    site.assert_clean();
}

#[test]
fn a_shell_stops_and_continues_it() {
    let site = Site::new();
    // No child: a shell that is stopped inside vfork stops nothing, with and without headwater.
    let headwater =
        site.command(&["--", "perl", "-e", "$| = 1; print qq(ready\\n); select undef, undef, undef, 1; exit 6"]);
    let (mut master, slave) = terminal();
    let shell = ["bash", "--norc", "--noprofile", "--noediting", "-i", "-s"];
    let mut command = on_terminal(&headwater, &shell, slave);
    command.env("HISTFILE", "/dev/null").stderr(Stdio::null());
    master.write_all(b"\"$@\"\n").unwrap();
    let Running { mut child, mut output, .. } = Running::start(command, 1);
    master.write_all(b"\x1a").unwrap();
    master.write_all(b"echo stopped $?; fg >/dev/null; echo ended $?; exit\n").unwrap();
    // By SIGSTOP: it caught SIGTSTP itself.
    assert_eq!(next_line(&mut output), "stopped 147\n");
    assert_eq!(next_line(&mut output), "ended 6\n");
    assert!(child.wait().unwrap().success());
    site.assert_clean();
}

#[test]
fn an_orphaned_group_is_not_stopped() {
    let site = Site::new();
    let headwater = site.command(&["--", "sh", "-c", "echo ready; sleep 1; exit 6"]);
    let (mut master, slave) = terminal();
    let Running { mut child, .. } = Running::start(on_terminal(&headwater, &[], slave), 1);
    master.write_all(b"\x1a").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(6));
    site.assert_clean();
}

#[test]
fn nothing_outlives_a_killed_headwater() {
    let script = "echo ready; exec sleep 100";
    for via in mechanisms() {
        let site = Site::new();
        let mut running = Running::start(site.command(&["--via", via, "--nodes", "3", "--", "sh", "-c", script]), 3);
        running.signal(Signal::KILL);
        assert_eq!(running.child.wait().unwrap().code(), None);
        site.assert_no_process();
        let base = || fs::read_dir(site.path("store")).unwrap().flatten().next();
        let is_empty = || base().is_none_or(|base| fs::read_dir(base.path()).unwrap().count() == 0);
        eventually("the session is removed", is_empty);
    }
}

#[test]
fn what_a_killed_session_left_goes_at_the_next_start() {
    let site = Site::new();
    // One node by audit has no supervisor, which would clean up.
    let mut running = Running::start(site.command(&["--", "sh", "-c", "echo ready; exec sleep 100"]), 1);
    let daemons = processes_called(&site, "daemon");
    assert_eq!(daemons.len(), 1);
    for daemon in daemons {
        kill_process(daemon, Signal::KILL).unwrap();
    }
    running.signal(Signal::KILL);
    running.child.wait().unwrap();
    site.assert_no_process();
    assert_ne!(fs::read_dir(site.path("store")).unwrap().count(), 0, "no process was left to clean up");
    // The kernel closes files of killed processes a moment later; until then the session is in use.
    eventually("what was left goes", || {
        assert!(site.run(&["--", "true"]).status.success());
        fs::read_dir(site.path("store")).unwrap().count() == 0
    });
    site.assert_clean();
}

#[test]
fn a_killed_daemon_is_reported_and_its_directory_removed() {
    let site = Site::new();
    let script = "echo ready; sleep 1; echo done; exit 3";
    let json = site.path("work/summary.json");
    let mut command = site.command(&["--summary-json"]);
    command.arg(&json).args(["--", "sh", "-c", script]).stderr(Stdio::piped());
    let mut running = Running::start(command, 1);
    let mut errors = running.child.stderr.take().unwrap();
    kill_process(processes_called(&site, "daemon")[0], Signal::KILL).unwrap();
    assert_eq!(running.end(), (Some(3), "done\n".into()));
    let mut message = Vec::new();
    errors.read_to_end(&mut message).unwrap();
    assert!(text(&message).contains("has ended"), "{}", text(&message));
    let summary: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(summary["daemons_lost"], 1);
    site.assert_clean();
}
