//! The calls: with and without waiting, vectors, placement, groups, very many processes.

use headwater_tests::harness::{Fixture, Program, has_program, is_root, skipped, user};

use super::{TRIAL_MAX, build_caller, run_trial};

fn check(trial: &str) {
    let fixture = Fixture::new("calls");
    run_trial(&build_caller(&fixture, "calls"), trial, &[]);
}

#[test]
fn ten_thousand_processes_leave_nothing_behind() {
    check("very_many");
}

#[test]
fn an_environment_of_a_megabyte_fits() {
    check("long_environment");
}

#[test]
fn batches_end_in_any_order() {
    check("without_waiting");
}

#[test]
fn vectors_have_lists_and_masks_of_their_own() {
    check("vectors");
}

#[test]
fn processes_are_placed_and_grouped() {
    check("placed");
}

#[test]
fn all_processes_are_made_though_the_zygote_is_killed() {
    check("zygote_killed");
}

#[test]
fn processes_enter_a_control_group() {
    check("in_control_group");
}

#[test]
fn limits_are_those_of_a_call() {
    check("with_limits");
}

#[test]
fn bad_processes_leave_the_others_alone() {
    check("bad_processes");
}

/// A million processes under a limit of thirty.
#[test]
fn a_limit_of_processes_ends_the_call() {
    if !is_root() || !has_program("setpriv") {
        return skipped("a user without other processes is needed");
    }
    let fixture = Fixture::new("limited");
    let calls = build_caller(&fixture, "calls");
    let limited = Program::new(&calls).arg("limited").behind(user::OTHER_USER);
    let output = limited.start().finish_within(TRIAL_MAX);
    assert_eq!(output.status, 0, "{output:?}");
}
