//! The spawning libraries: a process is as exec would have made it, and its owner is as it was.
//!
//! They link with the libraries in `target/dist/lib`; `cargo xtask dist` makes them.

mod bad_input;
mod calls;
mod fidelity;
mod hazards;

use std::path::{Path, PathBuf};
use std::time::Duration;

use headwater_tests::harness::{Fixture, Output, Program, skipped};
use headwater_tests::prefix;

/// How long a trial may take: some start ten thousand processes.
const TRIAL_MAX: Duration = Duration::from_secs(120);

/// Builds a program of `tests/programs/spawn` that calls the library.
fn build_caller(fixture: &Fixture, name: &str) -> PathBuf {
    let dist = prefix();
    let library = dist.join("lib/libheadwater-spawn.so");
    assert!(library.is_file(), "{} is missing: run `cargo xtask dist` first", library.display());
    let flags = [
        format!("-I{}", dist.join("include").display()),
        format!("-L{}", dist.join("lib").display()),
        "-lheadwater-spawn".to_owned(),
        format!("-Wl,-rpath,{}", dist.join("lib").display()),
        "-pthread".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    fixture.build(&format!("spawn/{name}.c"), name, &flags)
}

/// Runs one trial of such a program, which fails by itself.
fn run_trial(program: &Path, trial: &str, arguments: &[&str]) {
    run_trial_as(&[], program, trial, arguments);
}

/// The same behind the arguments that make it another user's.
fn run_trial_as(user: &[&str], program: &Path, trial: &str, arguments: &[&str]) {
    let program = Program::new(program).arg(trial).args(arguments).behind(user);
    let output = program.start().finish_within(TRIAL_MAX);
    assert_eq!(output.status, 0, "{trial} {arguments:?}: {output:?}");
    if let Some(reason) = output.stdout.lines().find_map(|line| line.strip_prefix("skipped: ")) {
        skipped(reason);
    }
}

/// Builds a program that exits with `status`, linked with these flags.
fn build_exiting(fixture: &Fixture, name: &str, status: i32, flags: &[&str]) -> PathBuf {
    let define = format!("-DSTATUS={status}");
    let flags: Vec<&str> = [define.as_str()].into_iter().chain(flags.iter().copied()).collect();
    fixture.build("spawn/exiting.c", name, &flags)
}

/// A program's output, without the numbers that differ from run to run.
fn without_numbers(output: &Output) -> String {
    let numbered =
        |line: &&str| ["parent ", "NStgid:", "NSsid:", "NSpgid:"].iter().any(|start| line.starts_with(start));
    let mut lines = Vec::new();
    for line in output.stdout.lines() {
        let known: String = if numbered(&line) {
            // 0 stays 0, and every other number is one of a process.
            line.split_whitespace()
                .map(|word| if word != "0" && word.parse::<u32>().is_ok() { "N " } else { "w " })
                .collect::<String>()
                + if line.ends_with("own") { "own" } else { "" }
        } else if let Some((before, rest)) = line.split_once(": pipe:[") {
            format!("{before}: pipe {}", rest.split_once(']').map_or("", |(_, flags)| flags))
        } else if let Some((before, rest)) = line.split_once("/#") {
            // A file without a name, such as the program's output.
            format!("{before} {}", rest.trim_start_matches(|c: char| c.is_ascii_digit()))
        } else {
            line.to_owned()
        };
        lines.push(known);
    }
    lines.join("\n")
}
