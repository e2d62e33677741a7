//! One program prints all that it can see of itself: started by `posix_spawn`, and by each mechanism, from odd callers.

use headwater_tests::harness::{Fixture, Program, no_early_stop, skipped};

use super::{build_caller, without_numbers};

const MECHANISMS: [&str; 7] = ["zygote", "main", "vfork", "clone3", "posix_spawn", "fork", "pfork"];

/// Compares what `report` does with these arguments, from a caller in this state.
fn check(fixture: &Fixture, state: &str, arguments: &[&str]) {
    let run = |mechanism: &str| {
        let report = fixture.path("report");
        let start = Program::new(fixture.path("start")).args([mechanism, state]).arg(report).args(arguments);
        start.env("ODD", "a=b c").env("EMPTY", "").run()
    };
    let plain = run("plain");
    assert!(plain.stdout.contains("waited "), "{state} {arguments:?}: {plain:?}");
    for mechanism in MECHANISMS {
        let ours = run(mechanism);
        let (plain, ours) = (without_numbers(&plain), without_numbers(&ours));
        let differ =
            |a: &str, b: &str| a.lines().filter(|l| !b.lines().any(|o| o == *l)).collect::<Vec<_>>().join("\n");
        assert!(
            plain == ours,
            "{mechanism}, {state}, {arguments:?}\n+ {}\n- {}",
            differ(&ours, &plain),
            differ(&plain, &ours)
        );
    }
}

fn fixture() -> Fixture {
    let fixture = Fixture::new("fidelity");
    fixture.build("spawn/report.c", "report", &["-pthread"]);
    build_caller(&fixture, "start");
    fixture
}

#[test]
fn a_process_sees_the_same() {
    if let Some(reason) = no_early_stop() {
        return skipped(reason);
    }
    let fixture = fixture();
    for state in ["none", "descriptors", "directory", "umask", "ignored", "blocked", "limits", "nice", "core"] {
        check(&fixture, state, &["one", "two words", ""]);
    }
    for state in ["group", "pipe", "closed", "childless", "descriptors directory umask blocked limits nice core pipe"] {
        check(&fixture, state, &[]);
    }
}

#[test]
fn an_earlier_zygote_makes_what_the_caller_has_now() {
    if let Some(reason) = no_early_stop() {
        return skipped(reason);
    }
    let fixture = fixture();
    for state in ["descriptors", "directory", "umask", "blocked", "limits", "nice", "core", "group", "pipe", "ignored"]
    {
        check(&fixture, &format!("late {state}"), &["x"]);
    }
    check(&fixture, "late closed descriptors directory umask blocked limits nice core", &["x"]);
}

#[test]
fn threads_forks_locks_and_libraries_work() {
    if let Some(reason) = no_early_stop() {
        return skipped(reason);
    }
    check(&fixture(), "none", &["work"]);
}

#[test]
fn ends_are_the_same() {
    if let Some(reason) = no_early_stop() {
        return skipped(reason);
    }
    let fixture = fixture();
    check(&fixture, "none", &["exit", "3"]);
    for signal in ["9", "11", "6", "15"] {
        check(&fixture, "none", &["signal", signal]);
        check(&fixture, "limits", &["signal", signal]);
    }
}

#[test]
fn scripts_are_run_by_their_interpreter() {
    if let Some(reason) = no_early_stop() {
        return skipped(reason);
    }
    let fixture = fixture();
    let text = "#!/bin/sh -u  \necho \"$0\" \"$@\"; tr '\\0' ' ' < /proc/$$/cmdline; cat /proc/$$/comm\n";
    let script = fixture.file("a-script", text, 0o755);
    let run = |mechanism: &str| {
        Program::new(fixture.path("start")).args([mechanism, "none"]).arg(&script).args(["x", "y z"]).run()
    };
    let plain = run("plain");
    assert!(plain.stdout.contains("a-script x y z"), "{plain:?}");
    MECHANISMS.iter().for_each(|mechanism| assert_eq!(run(mechanism).stdout, plain.stdout, "{mechanism}"));
}
