//! The project's tests of whole programs, of the release as it is installed in a root.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Root, install};
use crate::headwater::host;
use crate::release;
use crate::shell::Shell;
use crate::system::Architecture;
use crate::test::{Options, Tally, parse_cargo_test, summary};

/// The tests of sessions, of spawning and of the I/O library.
const TESTS: &[&str] = &["e2e", "mount", "spawn", "spawn_command", "spawn_python", "warm_ranks", "mpiio"];
const TEST_SECONDS_MAX: u64 = 2400;

/// Builds the release and the tests, and runs these in the roots of the suites. Returns true if nothing failed.
pub fn run(shell: &Shell, options: &Options) -> Result<bool> {
    release::run(shell, &[Architecture::here()?])?;
    let programs = shell.step("build the tests", || build(shell, &options.tests))?;
    let mut done = Vec::new();
    for &suite in &options.on {
        let mut root = Root::of(shell, suite)?;
        shell.step(&format!("install the release in {}", suite.name()), || install(shell, &root))?;
        root.shown = ["tests", "shim/audit/tests", BUILT].map(|path| shell.path(path)).into();
        for (name, program) in &programs {
            let name = format!("{} {name}", suite.name());
            let start = shell.begin(&name);
            let tally = test(shell, &root, program)?;
            shell.end(&name, start, tally.failed.is_empty());
            if !tally.failed.is_empty() {
                println!("{}", tally.output.trim_end());
            }
            done.push((name, tally, start.elapsed()));
        }
    }
    Ok(summary(&done))
}

/// Where the tests are built: statically linked, they run with any C library.
const BUILT: &str = "target/roots-tests";

/// Their names and paths.
fn build(shell: &Shell, tests: &[String]) -> Result<Vec<(String, PathBuf)>> {
    let (target, directory) = (host(shell)?, format!("--target-dir={BUILT}"));
    let mut command = shell.cargo(&["test", "--no-run", "--quiet", "--message-format=json", "--target", &target]);
    command.args([&directory, "--package=headwater-tests"]).env("RUSTFLAGS", "-C target-feature=+crt-static");
    let wanted = |name: &&&str| tests.is_empty() || tests.iter().any(|test| test == **name);
    let wanted: Vec<&str> = TESTS.iter().filter(wanted).copied().collect();
    for name in &wanted {
        command.args(["--test", name]);
    }
    let output = shell.run(&mut command)?;
    let messages: Vec<Value> = output.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let path = |name: &str| {
        let is_it = |message: &&Value| message["target"]["name"] == name && message["executable"].is_string();
        let path = messages.iter().find(is_it).and_then(|message| message["executable"].as_str());
        Ok((name.to_owned(), PathBuf::from(path.with_context(|| format!("cargo built no test `{name}`"))?)))
    };
    wanted.into_iter().map(path).collect()
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
