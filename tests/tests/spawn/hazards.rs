//! Hazards of a zygote for its owner's program, and cases in which there must be none.

use std::fs;

use headwater_tests::harness::{Fixture, is_root, no_early_stop, skipped, user};

use super::{build_caller, build_exiting, run_trial, run_trial_as};

fn check(trial: &str) {
    let fixture = Fixture::new("hazards");
    run_trial(&build_caller(&fixture, "hazards"), trial, &[]);
}

#[test]
fn waiting_for_any_child_finds_no_zygote() {
    check("wait_for_all");
}

#[test]
fn threads_that_wait_for_any_child_all_end() {
    check("wait_in_threads");
}

#[test]
fn a_handler_may_wait_for_any_child() {
    check("wait_in_handler");
}

#[test]
fn closing_all_descriptors_harms_no_process() {
    check("close_all");
}

#[test]
fn a_fork_of_the_owner_has_its_own_zygote() {
    check("fork_owner");
}

#[test]
fn other_variables_mean_another_zygote() {
    check("other_variables");
}

#[test]
fn a_zygote_has_nothing_open() {
    check("nothing_is_held");
}

#[test]
fn file_actions_may_name_what_exec_closes() {
    check("named_descriptors");
}

#[test]
fn a_stopped_zygote_is_abandoned_and_nothing_is_made_twice() {
    if let Some(reason) = no_early_stop() {
        return skipped(reason);
    }
    let fixture = Fixture::new("stopped");
    let file = fixture.path("bytes").display().to_string();
    run_trial(&build_caller(&fixture, "hazards"), "zygote_stopped", &[&file]);
}

#[test]
fn a_zygote_in_a_debugger_is_abandoned() {
    if let Some(reason) = no_early_stop() {
        return skipped(reason);
    }
    check("zygote_traced");
}

#[test]
fn what_counts_processors_counts_those_of_its_process() {
    let fixture = Fixture::new("cores");
    let program = fixture.build("spawn/cores.c", "cores", &["-fopenmp"]);
    run_trial(&build_caller(&fixture, "hazards"), "counted_cores", &[program.to_str().expect("a plain path")]);
}

#[test]
fn a_killed_owner_leaves_no_zygote() {
    if let Some(reason) = no_early_stop() {
        return skipped(reason);
    }
    check("owner_killed");
}

/// A program whose library's constructor does `what`.
fn with_constructor(fixture: &Fixture, what: &str) -> String {
    let define = format!("-DWHAT=\"{what}\"");
    let library = format!("lib{what}.so");
    fixture.build("spawn/library.c", &library, &["-shared", "-fPIC", "-pthread", &define]);
    let linked = format!("-l{what}");
    let flags = ["-Wl,--no-as-needed", "-L{shared}", &linked, "-Wl,-rpath,{shared}"];
    build_exiting(fixture, what, 9, &flags).display().to_string()
}

/// Before main, the program's constructor does `what`; the reason has `reason` in it, and the status is `status`.
fn check_refused(fixture: &Fixture, what: &str, reason: &str, status: &str) {
    let program = with_constructor(fixture, what);
    run_trial(&fixture.path("hazards"), "refused", &[&program, reason, status]);
}

#[test]
fn what_constructors_do_each_process_does() {
    if let Some(reason) = no_early_stop() {
        return skipped(reason);
    }
    let fixture = Fixture::new("constructors");
    let hazards = build_caller(&fixture, "hazards");
    for what in ["thread", "socket", "file", "memory", "close", "variable", "umask", "directory", "timer"] {
        run_trial(&hazards, "repeated", &[&with_constructor(&fixture, what), "9"]);
    }
    for (what, status) in [("crash", "134"), ("exit", "3"), ("block", "kill")] {
        run_trial(&hazards, "repeated", &[&with_constructor(&fixture, what), status]);
    }
}

#[test]
fn a_constructor_that_a_fork_would_not_repeat_means_exec() {
    if let Some(reason) = no_early_stop() {
        return skipped(reason);
    }
    let fixture = Fixture::new("constructors");
    build_caller(&fixture, "hazards");
    for (what, reason) in [
        ("thread", "threads"),
        ("socket", "opened socket"),
        ("file", "opened /etc/passwd"),
        ("memory", "shares memory"),
        ("close", "closed"),
        ("variable", "environment"),
        ("umask", "umask"),
        ("directory", "directory"),
        ("timer", "timers"),
    ] {
        check_refused(&fixture, what, reason, "9");
    }
}

#[test]
fn a_constructor_that_does_not_return_means_exec() {
    let fixture = Fixture::new("constructors");
    build_caller(&fixture, "hazards");
    check_refused(&fixture, "crash", "ended before", "134");
    check_refused(&fixture, "exit", "ended before", "3");
    check_refused(&fixture, "block", "did not end within 300 ms", "kill");
}

#[test]
fn programs_of_other_kinds_are_run_by_exec() {
    let fixture = Fixture::new("kinds");
    let hazards = build_caller(&fixture, "hazards");
    let program = build_exiting(&fixture, "static", 9, &["-static"]);
    run_trial(&hazards, "refused", &[program.to_str().expect("a plain path"), "statically", "9"]);
    let mut foreign = fs::read(&program).expect("an own file");
    foreign[18] = 0xf3; // RISC-V
    let foreign = fixture.file("foreign", foreign, 0o755);
    run_trial(&hazards, "refused", &[foreign.to_str().expect("a plain path"), "another kind of processor", "-"]);
    let program = build_exiting(&fixture, "privileged", 9, &[]);
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o4755)).expect("an own file");
    run_trial(&hazards, "refused", &[program.to_str().expect("a plain path"), "privileges", "9"]);
}

#[test]
fn what_is_replaced_is_used_at_once() {
    let fixture = Fixture::new("replaced");
    let hazards = build_caller(&fixture, "hazards");
    let new = build_exiting(&fixture, "new", 2, &[]);
    let program = build_exiting(&fixture, "program", 1, &[]);
    let (new, old) = (new.display().to_string(), program.display().to_string());
    run_trial(&hazards, "replaced", &[&old, &format!("mv '{new}' '{old}'")]);

    // A library, by a name that means another file then, and by its content.
    let library = |name: &str, status: &str| {
        let define = format!("-DSTATUS={status}");
        fixture.build("spawn/status.c", name, &["-shared", "-fPIC", &define]).display().to_string()
    };
    for how in ["mv", "cp"] {
        let (old, new) = (library("libstatus.so", "1"), library("new.so", "2"));
        let flags = ["-DBY_LIBRARY", "-L{shared}", "-lstatus", "-Wl,-rpath,{shared}"];
        let program = build_exiting(&fixture, "linked", 0, &flags);
        run_trial(&hazards, "replaced", &[&program.display().to_string(), &format!("{how} '{new}' '{old}'")]);
    }
}

#[test]
fn what_may_not_be_read_is_run_by_exec() {
    let fixture = Fixture::new("unreadable");
    let hazards = build_caller(&fixture, "hazards");
    let program = build_exiting(&fixture, "unreadable", 9, &[]);
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o111)).expect("an own file");
    // Root may read everything.
    let user: &[&str] = if is_root() { &user::NOBODY } else { &[] };
    run_trial_as(user, &hazards, "refused", &[program.to_str().expect("a plain path"), "can't be read", "9"]);
}
