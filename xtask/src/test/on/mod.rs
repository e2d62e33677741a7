//! The project's tests of whole programs, of the release as it is installed in a root.

mod emulated;
mod install;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use self::install::install;
use super::options::{ON_TESTS, Options};
use super::report::{Tally, parse_cargo_test, summary};
use crate::headwater::host;
use crate::release;
use crate::roots::{Root, Tested};
use crate::shell::Shell;
use crate::system::Architecture;

/// Those that continuous integration runs on one system for each commit.
const TESTS_SHORT: &[&str] = &["e2e", "spawn_command", "warm_ranks"];
/// The systems of which that is one.
const TURNS: &[Tested] = &[Tested::Bullseye, Tested::Trixie];
const TEST_SECONDS_MAX: u64 = 2400;
/// Where they are built.
const BUILT: &str = "target/roots-tests";

/// Builds the release and the tests, and runs these in the roots of the systems. Returns true if nothing failed.
pub fn run(shell: &Shell, options: &Options) -> Result<bool> {
    let (emulated, here): (Vec<Tested>, Vec<Tested>) = options.on.iter().partition(|on| **on == Tested::Arm64);
    let mut done = Vec::new();
    if !here.is_empty() {
        done.extend(whole_programs(shell, &here, &options.tests)?);
    }
    if !emulated.is_empty() {
        let start = shell.begin("arm64 session");
        let tally = emulated::run(shell)?;
        shell.end("arm64 session", start, tally.failed.is_empty());
        done.push(("arm64".into(), tally, start.elapsed()));
    }
    Ok(summary(&done))
}

/// The tests of whole programs on this machine's processors.
fn whole_programs(shell: &Shell, on: &[Tested], tests: &[String]) -> Result<Vec<(String, Tally, Duration)>> {
    release::build_archive(shell, Architecture::here()?)?;
    let wanted = |name: &&&str| tests.is_empty() || tests.iter().any(|test| test == **name);
    let wanted: Vec<&str> = ON_TESTS.iter().filter(wanted).copied().collect();
    let programs = shell.step("build the tests", || build(shell, &wanted))?;
    let mut done = Vec::new();
    for system in on {
        let root = equip(shell, Root::of(shell, system.contents())?)?;
        for (name, program) in &programs {
            let name = format!("{} {name}", system.name());
            let start = shell.begin(&name);
            let tally = test(shell, &root, program)?;
            shell.end(&name, start, tally.failed.is_empty());
            if !tally.failed.is_empty() {
                println!("{}", tally.output.trim_end());
            }
            done.push((name, tally, start.elapsed()));
        }
    }
    Ok(done)
}

/// The short form, on the system whose turn it is: each commit has the next one.
pub fn by_turn(shell: &Shell) -> Result<Tally> {
    if !(rustix::process::geteuid().is_root() && Path::new("/usr/sbin/debootstrap").exists()) {
        return Ok(Tally::skipped("other systems: their roots need root and debootstrap".into()));
    }
    let counted = shell.run(shell.command("git").args(["rev-list", "--count", "HEAD"]));
    let commits: usize = counted.ok().and_then(|count| count.trim().parse().ok()).unwrap_or_default();
    let system = TURNS[commits % TURNS.len()];
    // It comes from the network.
    let root = match Root::of(shell, system.contents()) {
        Ok(root) => root,
        Err(error) => {
            let (name, why) = (system.name(), error.to_string());
            return Ok(Tally::skipped(format!("{name}: no root: {}", why.lines().next().unwrap_or_default())));
        }
    };
    release::build_archive(shell, Architecture::here()?)?;
    let programs = build(shell, TESTS_SHORT)?;
    let root = equip(shell, root)?;
    let mut done = Tally::default();
    for (_, program) in &programs {
        let mut tally = test(shell, &root, program)?;
        for what in tally.failed.iter_mut().chain(&mut tally.skipped) {
            *what = format!("{}: {what}", system.name());
        }
        done.add(tally);
    }
    Ok(done)
}

/// Gives a root the release and what the tests read.
fn equip<'a>(shell: &Shell, mut root: Root<'a>) -> Result<Root<'a>> {
    let architecture = Architecture::here()?;
    shell.step("install the release", || install(shell, &root, architecture))?;
    root.shown = ["docs", "spawn/include", "tests", "shim/audit/tests", BUILT].map(|path| shell.path(path)).into();
    Ok(root)
}

/// Builds the tests, linked statically, so that they run with any C library; returns their names and paths.
fn build(shell: &Shell, tests: &[&str]) -> Result<Vec<(String, PathBuf)>> {
    let (target, directory) = (host(shell)?, format!("--target-dir={BUILT}"));
    let mut command = shell.cargo(&["test", "--no-run", "--quiet", "--message-format=json", "--target", &target]);
    command.args([&directory, "--package=headwater-tests"]).env("RUSTFLAGS", "-C target-feature=+crt-static");
    for name in tests {
        command.args(["--test", name]);
    }
    let output = shell.run(&mut command)?;
    let messages: Vec<Value> = output.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let path = |name: &str| {
        let is_it = |message: &&Value| message["target"]["name"] == name && message["executable"].is_string();
        let path = messages.iter().find(is_it).and_then(|message| message["executable"].as_str());
        Ok((name.to_owned(), PathBuf::from(path.with_context(|| format!("cargo built no test `{name}`"))?)))
    };
    tests.iter().copied().map(path).collect()
}

fn test(shell: &Shell, root: &Root<'_>, program: &Path) -> Result<Tally> {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut command = root.command("env", &shell.path("tests"));
    command.arg("HEADWATER_TEST_PREFIX=/usr").arg(format!("RUST_TEST_THREADS={}", 2 * processors));
    command.arg(program).arg("--show-output");
    let finished = shell.capture_limited(&command, TEST_SECONDS_MAX)?;
    let mut tally = parse_cargo_test(&finished.output);
    if !finished.status.success() && tally.failed.is_empty() {
        tally.failed.push(format!("{}: {}", program.display(), finished.status));
    }
    Ok(tally)
}
