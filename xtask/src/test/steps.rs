//! The commands of each step.

use std::num::NonZero;
use std::process::Command;

use anyhow::Result;

use super::c_programs;
use super::c_tests::CTests;
use super::report::{Tally, parse_cargo_test};
use crate::setup::Purpose;
use crate::shell::{Shell, display};
use crate::{dist, docs, fuzz, mpiio, setup, shim, sim, spawn, tidy};

/// Fuzzing has a workspace of its own.
const FUZZ_MANIFEST: &str = "--manifest-path=fuzz/Cargo.toml";
const CARGO_TEST_SECONDS_MAX: u64 = 3600;
const TESTS_A_PROCESSOR: usize = 2;

pub fn fmt(shell: &Shell) -> Result<Tally> {
    shell.run(&mut shell.cargo(&["fmt", "--all", "--check"]))?;
    shell.run(&mut shell.cargo(&["fmt", FUZZ_MANIFEST, "--check"]))?;
    Ok(Tally::passed())
}

pub fn clippy(shell: &Shell) -> Result<Tally> {
    shell.run(&mut shell.cargo(&["clippy", "--quiet", "--workspace", "--all-targets", "--", "-Dwarnings"]))?;
    let mut fuzz = shell.cargo(&["clippy", "--quiet", FUZZ_MANIFEST, "--target-dir=target/fuzz", "--", "-Dwarnings"]);
    // Decoders are public for their targets alone.
    shell.run(fuzz.env("RUSTFLAGS", "--cfg fuzzing"))?;
    Ok(Tally::passed())
}

pub fn doc(shell: &Shell) -> Result<Tally> {
    shell.run(shell.cargo(&["doc", "--quiet", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-Dwarnings"))?;
    Ok(Tally::passed())
}

pub fn tidy(shell: &Shell) -> Result<Tally> {
    let mut tally = Tally::passed();
    if let Some(why) = tidy::run(shell)? {
        tally.add(Tally::skipped(why));
    }
    Ok(tally)
}

pub fn shim(shell: &Shell) -> Result<Tally> {
    shim::check_headers(shell)?;
    shim::build_audit(shell, &shell.path("target/shim"))?;
    spawn::build(shell)?;
    let mut tally = Tally::passed();
    for note in mpiio::build(shell)?.notes {
        tally.add(Tally::skipped(note));
    }
    Ok(tally)
}

/// Those that need an MPI, too.
pub fn c(shell: &Shell) -> Result<Tally> {
    let mut tally = c_programs::run(&CTests::here(shell))?;
    tally.add(mpiio::test(shell)?);
    Ok(tally)
}

pub fn cargo(shell: &Shell) -> Result<Tally> {
    dist::run(shell)?;
    let checked = mpiio::build_checked(shell)?;
    let mut command = shell.cargo(&["test", "--workspace", "--no-fail-fast", "--", "--show-output"]);
    // Most tests wait for much of their time.
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    command.env("HEADWATER_TEST_MPIIO", checked);
    command.env("HEADWATER_CLOSURES", super::options::NO_CLOSURES);
    command.env("RUST_TEST_THREADS", (TESTS_A_PROCESSOR * processors).to_string());
    cargo_test(shell, command)
}

pub fn docs(shell: &Shell) -> Result<Tally> {
    docs::check(shell)?;
    Ok(Tally::passed())
}

pub fn loom(shell: &Shell) -> Result<Tally> {
    let mut command =
        shell.cargo(&["test", "--release", "--package=headwater-abi", "--test=loom", "--target-dir=target/loom"]);
    command.env("RUSTFLAGS", "--cfg loom");
    cargo_test(shell, command)
}

fn cargo_test(shell: &Shell, command: Command) -> Result<Tally> {
    let finished = shell.capture_limited(&command, CARGO_TEST_SECONDS_MAX)?;
    let mut tally = parse_cargo_test(&finished.output);
    if shell.verbose {
        tally.output.clear();
    }
    let repeat = display(&command, &shell.root);
    for name in &mut tally.failed {
        *name = format!("{name}; repeat: {} {name}", repeat.trim_end_matches(" --show-output"));
    }
    if !finished.status.success() && tally.failed.is_empty() {
        tally.failed.push(format!("{}: {repeat}", finished.status));
    }
    Ok(tally)
}

pub fn sim(shell: &Shell, seeds: u64) -> Result<Tally> {
    sim::run(shell, sim::Runs::Many(seeds))?;
    Ok(Tally::passed())
}

pub fn fuzz(shell: &Shell, seconds: u64) -> Result<Tally> {
    setup::run(shell, Purpose::All)?;
    let mut tally = Tally::default();
    for result in fuzz::run(shell, None, seconds)? {
        match result.failure {
            None => tally.add(Tally::passed()),
            Some(failure) => tally.add(Tally { output: result.output, ..Tally::failed(failure) }),
        }
    }
    Ok(tally)
}
