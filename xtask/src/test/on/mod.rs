//! The project's tests of whole programs, of the release as it is installed in a root.

mod install;
mod session;
mod speed;
mod table;
mod versions;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use self::install::install;
use self::table::Outcome;
use super::c_programs;
use super::c_tests::CTests;
use super::options::{ON_BENCHMARKS, ON_TESTS, Options};
use super::report::{Tally, parse_cargo_test, summary};
use crate::headwater::{self, host};
use crate::release;
use crate::roots::{Root, Tested};
use crate::shell::Shell;
use crate::system::{Architecture, System};

/// Those that continuous integration runs on one system for each commit.
const TESTS_SHORT: &[&str] = &["e2e", "spawn_command", "warm_ranks"];
/// The systems of which that is one.
const TURNS: &[Tested] = &[Tested::Bullseye, Tested::Trixie, Tested::Arm64];
const TEST_SECONDS_MAX: u64 = 2400;
/// Where they are built.
const BUILT: &str = "target/roots-tests";

/// Builds the release and the tests, and runs these in the roots of the systems. Returns true if nothing failed.
pub fn run(shell: &Shell, options: &Options) -> Result<bool> {
    let on = options.on.iter().flat_map(|systems| &systems.0).copied();
    let (emulated, here): (Vec<Tested>, Vec<Tested>) = on.partition(|on| *on == Tested::Arm64);
    let mut outcomes = Vec::new();
    if !here.is_empty() {
        whole_programs(shell, &here, &options.tests, &mut outcomes)?;
    }
    if !emulated.is_empty() {
        let outcome = emulated_session(shell)?;
        outcome.tests.iter().for_each(|(_, tally, _)| print!("{}", tally.output));
        outcomes.push(outcome);
    }
    println!("\n{}", table::markdown(&outcomes));
    let done: Vec<_> = outcomes.into_iter().flat_map(|outcome| outcome.tests).collect();
    Ok(summary(&done))
}

/// The tests of whole programs on this machine's processors; without a choice of tests, benchmarks, too.
fn whole_programs(shell: &Shell, on: &[Tested], tests: &[String], outcomes: &mut Vec<Outcome>) -> Result<()> {
    release::build_archive(shell, Architecture::here()?)?;
    let is_wanted = |name: &str| tests.is_empty() || tests.iter().any(|test| test == name);
    let wanted: Vec<&str> = ON_TESTS.into_iter().filter(|name| is_wanted(name)).collect();
    let programs = shell.step("build the tests", || build(shell, &wanted))?;
    let build_bench = || shell.step("build the benchmarks", || build_bench(shell));
    let bench = is_wanted(ON_BENCHMARKS).then(build_bench).transpose()?;
    for system in on {
        let (root, installation) = equip(shell, Root::of(shell, system.contents())?)?;
        let mut outcome = begin(shell, &root, *system, installation)?;
        for (name, program) in &programs {
            let name = format!("{} {name}", system.name());
            let start = shell.begin(&name);
            let tally = test(shell, &root, program)?;
            shell.end(&name, start, tally.failed.is_empty());
            if !tally.failed.is_empty() {
                println!("{}", tally.output.trim_end());
            }
            outcome.tests.push((name, tally, start.elapsed()));
        }
        if let Some(bench) = &bench {
            let name = format!("{} benchmarks", system.name());
            outcome.speed = Some(shell.step(&name, || speed::measure(shell, &root, bench))?);
        }
        outcomes.push(outcome);
    }
    Ok(())
}

/// The first session in a root with an installed release.
fn begin(shell: &Shell, root: &Root<'_>, system: Tested, installation: Duration) -> Result<Outcome> {
    let name = system.name();
    // qemu lacks the calls that mount a file system.
    let (architecture, via) = match system {
        Tested::Arm64 => (Architecture::Aarch64, "audit"),
        _ => (Architecture::here()?, "auto"),
    };
    let shown = format!("{name} session");
    let start = shell.begin(&shown);
    let (tally, took) = match session::run(shell, root, architecture, via) {
        Ok(took) => (Tally::passed(), took),
        Err(error) => (Tally::failed(format!("{shown}: {error:#}")), Duration::ZERO),
    };
    shell.end(&shown, start, tally.failed.is_empty());
    let tests = vec![(shown, tally, start.elapsed())];
    Ok(Outcome { name, versions: versions::of(shell, root)?, first: [installation, took], tests, speed: None })
}

/// A session on processors that qemu emulates.
fn emulated_session(shell: &Shell) -> Result<Outcome> {
    release::build_archive(shell, Architecture::Aarch64)?;
    let mut root = Root::of(shell, Tested::Arm64.contents())?;
    let installation = install(shell, &root, Architecture::Aarch64)?;
    let mut outcome = begin(shell, &root, Tested::Arm64, installation)?;
    let name = format!("{} C tests", outcome.name);
    let start = shell.begin(&name);
    let emulated = Shell { system: System::Released(Architecture::Aarch64), ..shell.clone() };
    let mktable = headwater::cross_example(shell, Architecture::Aarch64, "headwater-store", "mktable")?;
    root.shown = vec![shell.root.clone()];
    root.shared = vec![emulated.built("c-tests")];
    std::fs::create_dir_all(&root.shared[0])?;
    let tally = c_programs::run(&CTests::emulated(&emulated, &root, &mktable))?;
    shell.end(&name, start, tally.failed.is_empty());
    outcome.tests.push((name, tally, start.elapsed()));
    Ok(outcome)
}

/// The short form, on the system whose turn it is: each commit has the next one.
pub fn by_turn(shell: &Shell) -> Result<Tally> {
    if !(rustix::process::geteuid().is_root() && Path::new("/usr/sbin/debootstrap").exists()) {
        return Ok(Tally::skipped("other systems: their roots need root and debootstrap".into()));
    }
    let counted = shell.run(shell.command("git").args(["rev-list", "--count", "HEAD"]));
    let commits: usize = counted.ok().and_then(|count| count.trim().parse().ok()).unwrap_or_default();
    let system = TURNS[commits % TURNS.len()];
    // Roots come from the network; one with a compiler is among them for another architecture.
    let has_compiler = match system {
        Tested::Arm64 => headwater::root(shell, Architecture::Aarch64).map(drop),
        _ => Ok(()),
    };
    let root = match has_compiler.and_then(|()| Root::of(shell, system.contents())) {
        Ok(root) => root,
        Err(error) => {
            let (name, why) = (system.name(), error.to_string());
            return Ok(Tally::skipped(format!("{name}: no root: {}", why.lines().next().unwrap_or_default())));
        }
    };
    let tallies: Vec<Tally> = match system {
        Tested::Arm64 => emulated_session(shell)?.tests.into_iter().map(|(_, tally, _)| tally).collect(),
        _ => short(shell, root)?,
    };
    let mut done = Tally::default();
    for mut tally in tallies {
        for what in tally.failed.iter_mut().chain(&mut tally.skipped) {
            *what = format!("{}: {what}", system.name());
        }
        done.add(tally);
    }
    Ok(done)
}

fn short(shell: &Shell, root: Root<'_>) -> Result<Vec<Tally>> {
    release::build_archive(shell, Architecture::here()?)?;
    let programs = build(shell, TESTS_SHORT)?;
    let (root, _) = equip(shell, root)?;
    programs.iter().map(|(_, program)| test(shell, &root, program)).collect()
}

/// What tests and benchmarks read.
const SHOWN: [&str; 6] = ["abi/include", "docs", "spawn/include", "tests", "shim/audit", BUILT];

/// The machine's certificates, and the variables by which pip reaches its registry: tests install packages.
const CERTIFICATES: &str = "/etc/ssl/certs";
const NETWORK: [&str; 6] =
    ["HTTPS_PROXY", "PIP_CERT", "PIP_INDEX_URL", "PIP_TRUSTED_HOST", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"];

/// Gives a root the release and what the tests read. Returns how long the installation took.
fn equip<'a>(shell: &Shell, mut root: Root<'a>) -> Result<(Root<'a>, Duration)> {
    let architecture = Architecture::here()?;
    let took = shell.step("install the release", || install(shell, &root, architecture))?;
    root.shown = SHOWN.map(|path| shell.path(path)).into();
    root.shown.extend(Some(PathBuf::from(CERTIFICATES)).filter(|path| path.exists()));
    Ok((root, took))
}

/// Builds the tests, linked statically, so that they run with any C library; returns their names and paths.
fn build(shell: &Shell, tests: &[&str]) -> Result<Vec<(String, PathBuf)>> {
    let arguments: Vec<&str> = tests.iter().flat_map(|name| ["--test", name]).collect();
    let built = build_static(shell, &["test", "--no-run"], &arguments)?;
    let path = |name: &str| {
        let path = built.get(name).with_context(|| format!("cargo built no test `{name}`"))?;
        Ok((name.to_owned(), path.clone()))
    };
    tests.iter().copied().map(path).collect()
}

fn build_bench(shell: &Shell) -> Result<PathBuf> {
    build_static(shell, &["build"], &["--bin=bench"])?.remove("bench").context("cargo built no benchmarks")
}

/// Lets cargo build executables of the tests; returns their paths by their names.
fn build_static(shell: &Shell, begin: &[&str], end: &[&str]) -> Result<HashMap<String, PathBuf>> {
    let (target, directory) = (host(shell)?, format!("--target-dir={BUILT}"));
    let mut command = shell.cargo(begin);
    command.args(["--quiet", "--message-format=json", "--target", &target, &directory, "--package=headwater-tests"]);
    let output = shell.run(command.args(end).env("RUSTFLAGS", "-C target-feature=+crt-static"))?;
    let messages = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let executable = |message: Value| {
        let path = PathBuf::from(message["executable"].as_str()?);
        Some((message["target"]["name"].as_str()?.to_owned(), path))
    };
    Ok(messages.filter_map(executable).collect())
}

fn test(shell: &Shell, root: &Root<'_>, program: &Path) -> Result<Tally> {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut command = root.command("env", &shell.path("tests"));
    command.arg("HEADWATER_TEST_PREFIX=/usr").arg(format!("HEADWATER_CLOSURES={}", super::options::NO_CLOSURES));
    command.arg(format!("RUST_TEST_THREADS={}", 2 * processors));
    let network = NETWORK.iter().filter_map(|name| Some(format!("{name}={}", std::env::var(name).ok()?)));
    command.args(network).arg(program).arg("--show-output");
    let finished = shell.capture_limited(&command, TEST_SECONDS_MAX)?;
    let mut tally = parse_cargo_test(&finished.output);
    if !finished.status.success() && tally.failed.is_empty() {
        tally.failed.push(format!("{}: {}", program.display(), finished.status));
    }
    Ok(tally)
}
