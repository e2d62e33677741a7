//! Each function that the audit library wraps, called in every variant of the programs of `shim/audit/tests/wrap`,
//! returns what it returns without Headwater.

use std::path::PathBuf;
use std::process::Command;

use headwater_tests::harness::{Fixture, Headwater, Program, glibc_is_before, is_root, skipped, user};
use headwater_tests::workspace;

fn sources() -> PathBuf {
    workspace().join("shim/audit/tests/wrap")
}

fn build(fixture: &Fixture, name: &str) -> PathBuf {
    let source = sources().join(format!("{name}.c"));
    fixture.build(source.to_str().expect("the workspace's path is text"), &format!("build/{name}"), &[])
}

/// Makes `tree` anew.
fn tree(fixture: &Fixture) -> PathBuf {
    let tree = fixture.path("tree");
    if tree.exists() {
        std::fs::remove_dir_all(&tree).expect("an own directory");
    }
    let mut command = Command::new("sh");
    command.arg(sources().join("fixture.sh")).arg(&tree).env("PROGRAM", fixture.path("build/execs"));
    assert!(command.status().expect("there is a shell").success());
    tree
}

fn check(name: &str, session: impl Fn(Headwater) -> Headwater) {
    let fixture = Fixture::new(name);
    build(&fixture, "execs");
    let program = Program::new(build(&fixture, name)).arg(tree(&fixture));
    session(fixture.headwater()).same_output(&program);
}

fn check_for_everybody(name: &str) {
    check(name, |session| session);
    if !is_root() {
        return skipped("another user's permissions need root");
    }
    check(name, |session| session.behind(&user::NOBODY));
}

#[test]
fn stat_and_access() {
    check_for_everybody("stats");
}

#[test]
fn open_and_fopen() {
    check_for_everybody("opens");
}

#[test]
fn directory_streams() {
    check_for_everybody("dirs");
}

#[test]
fn readlink_and_realpath() {
    check_for_everybody("links");
}

#[test]
fn nothing_is_written_behind_what_is_returned() {
    if glibc_is_before(2, 33) {
        return skipped("before glibc 2.33, its own realpath writes behind what it returns");
    }
    check("tails", |session| session);
}

#[test]
fn exec_and_posix_spawn() {
    check_for_everybody("execs");
}

#[test]
fn what_changes_the_tree() {
    let fixture = Fixture::new("writes");
    build(&fixture, "execs");
    let program = Program::new(build(&fixture, "writes")).arg(tree(&fixture));
    let plain = program.run();
    tree(&fixture);
    fixture.headwater().run(&program).output.assert_same(&plain);
}
