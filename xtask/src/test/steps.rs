//! The commands of each step.

use std::num::NonZero;
use std::process::Command;

use anyhow::{Result, ensure};

use super::c_program::{self, run_c};
use super::report::{Tally, parse_cargo_test};
use crate::setup::Purpose;
use crate::shell::{Shell, display};
use crate::{dist, docs, fabric, files, fuzz, mpiio, setup, shim, side_by_side, sim, slurm, spawn, tidy};

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

/// Each C file in the `tests` of `shim/audit`, `integrations/slurm`, `integrations/fabric` and `spawn` that begins with a
/// line `/* sources: a.c b.c */` is a program of its own, linked with these sources and run under the sanitizers; of
/// those of the carrier, those that need libfabric only where it is. The tests of the I/O library have MPIs of their own,
/// or stand-ins for one.
pub fn c(shell: &Shell) -> Result<Tally> {
    let mut tally = c_without_mpi(shell)?;
    tally.add(mpiio::test(shell)?);
    Ok(tally)
}

/// Those that need no MPI, compiled for the shell's system.
pub fn c_without_mpi(shell: &Shell) -> Result<Tally> {
    let mut tally = c_in(shell, shim::AUDIT_SOURCES, shim::AUDIT_TESTS)?;
    tally.add(c_in(shell, slurm::SOURCES, slurm::TESTS)?);
    tally.add(c_in(shell, fabric::SOURCES, fabric::TESTS)?);
    tally.add(c_in(shell, spawn::SOURCES, spawn::TESTS)?);
    tally.add(mpiio::test_core(shell)?);
    Ok(tally)
}

/// They are compiled side by side, and run one after another.
fn c_in(shell: &Shell, sources_in: &str, tests_in: &str) -> Result<Tally> {
    let mut tally = Tally::default();
    let directory = c_program::directory(shell);
    std::fs::create_dir_all(&directory)?;
    let mut tests = Vec::new();
    for source in files::with_extensions(&shell.path(tests_in), &["c"])? {
        let text = std::fs::read_to_string(&source)?;
        let Some(sources) = linked_sources(&text) else { continue };
        let name = source.file_stem().expect("a source has a name").to_string_lossy().into_owned();
        let libraries =
            if sources.contains(&fabric::NEEDS_LIBFABRIC) { fabric::libraries(shell)? } else { Some(vec![]) };
        let Some(libraries) = libraries else {
            tally.add(Tally::skipped(format!("{name}: libfabric's headers are missing")));
            continue;
        };
        let mut args = vec![source.strip_prefix(&shell.root)?.display().to_string()];
        args.extend(sources.iter().map(|name| format!("{sources_in}/{name}")));
        args.extend(libraries);
        tests.push((name, args));
    }
    let compiled = side_by_side::map(&tests, |(name, args)| {
        let mut command = c_program::compiler(shell);
        command.arg(format!("-I{sources_in}")).arg(format!("-I{}", shim::AUDIT_TESTS));
        shell.run(command.arg("-o").arg(directory.join(name)).args(args))
    });
    for ((name, _), compiled) in tests.iter().zip(compiled) {
        tally.add(match compiled {
            Ok(_) => run_c(shell, name, &mut c_program::start(shell, &directory.join(name)))?,
            Err(error) => {
                Tally { output: format!("{error:#}\n"), ..Tally::failed(format!("{name}: does not compile")) }
            }
        });
    }
    ensure!(tally != Tally::default(), "{tests_in} contains no C tests");
    Ok(tally)
}

fn linked_sources(text: &str) -> Option<Vec<&str>> {
    let list = text.lines().find_map(|line| line.strip_prefix("/* sources:"))?;
    Some(list.split("*/").next()?.split_whitespace().collect())
}

pub fn cargo(shell: &Shell) -> Result<Tally> {
    dist::run(shell)?;
    let checked = mpiio::build_checked(shell)?;
    let mut command = shell.cargo(&["test", "--workspace", "--no-fail-fast", "--", "--show-output"]);
    // Most tests wait for much of their time.
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    command.env("HEADWATER_TEST_MPIIO", checked);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_c_tests() {
        assert_eq!(linked_sources("/* sources: a.c b.c */\nint x;"), Some(vec!["a.c", "b.c"]));
        assert_eq!(linked_sources("/* sources: */\n"), Some(vec![]));
        assert_eq!(linked_sources("int x;\n"), None);
    }
}
