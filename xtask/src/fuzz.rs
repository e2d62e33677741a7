//! Fuzzing with libFuzzer on stable Rust.
//!
//! The compiler passes that cargo-fuzz requests exist in the stable compiler too. Only the address sanitizer does not;
//! the Rust code that is fuzzed has no `unsafe`, and C code has gcc's.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::shell::{Shell, display};
use crate::{headwater, side_by_side};

const FLAGS: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks --cfg fuzzing";

/// An input's time is wall time, so that it has room for a machine that is busy with something else.
const LIMITS: &[&str] = &["-rss_limit_mb=2048", "-timeout=30", "-print_final_stats=1"];

/// How fuzzing one target ended.
#[derive(Debug)]
pub struct Fuzzed {
    /// If it failed: what, and how to repeat it.
    pub failure: Option<String>,
    /// libFuzzer's output.
    pub output: String,
}

/// Builds the targets and fuzzes all of them, or `only` one, for so many seconds each, as many at a
/// time as there are processors.
pub fn run(shell: &Shell, only: Option<&str>, seconds: u64) -> Result<Vec<Fuzzed>> {
    let (directory, mut targets) = build(shell)?;
    targets.retain(|target| only.is_none_or(|only| only == target));
    ensure!(!targets.is_empty(), "fuzz/Cargo.toml has no target {}", only.unwrap_or("at all"));
    side_by_side::map(&targets, |target| fuzz(shell, &directory, target, seconds)).into_iter().collect()
}

/// Fuzzes and prints what happened; fails if a target did.
pub fn report(shell: &Shell, only: Option<&str>, seconds: u64) -> Result<()> {
    let results = run(shell, only, seconds)?;
    for result in results.iter().filter(|r| r.failure.is_some()) {
        println!("{}", result.output.trim_end());
    }
    let failures: Vec<_> = results.into_iter().filter_map(|r| r.failure).collect();
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

fn build(shell: &Shell) -> Result<(PathBuf, Vec<String>)> {
    let host = headwater::host(shell)?;
    let manifest = "--manifest-path=fuzz/Cargo.toml";
    let mut command =
        shell.cargo(&["build", "--quiet", "--release", manifest, "--target-dir=target/fuzz", "--target", &host]);
    shell.step("build the fuzz targets", || shell.run(command.env("RUSTFLAGS", FLAGS)))?;
    let output = shell.run(&mut shell.cargo(&["metadata", "--no-deps", "--format-version=1", "--quiet", manifest]))?;
    let start = output.find('{').context("`cargo metadata` printed no JSON")?;
    let metadata: Value = serde_json::from_str(&output[start..])?;
    let all = metadata["packages"][0]["targets"].as_array().context("the fuzz package has no targets")?;
    let programs = all.iter().filter(|target| target["kind"][0] == "bin");
    let names = programs.filter_map(|target| target["name"].as_str().map(str::to_owned)).collect();
    Ok((shell.path("target/fuzz").join(host).join("release"), names))
}

fn fuzz(shell: &Shell, directory: &Path, target: &str, seconds: u64) -> Result<Fuzzed> {
    let corpus = shell.path("target/fuzz-corpus").join(target);
    let found = shell.path("target/fuzz-found").join(target);
    let seeds = shell.path("fuzz/seeds").join(target);
    for directory in [&corpus, &found] {
        std::fs::create_dir_all(directory)?;
    }
    let program = directory.join(target);
    let mut command = shell.command(&program);
    // Freed memory that AddressSanitizer retains counts against the limit.
    command.env("ASAN_OPTIONS", "quarantine_size_mb=16:detect_leaks=0");
    command.args(LIMITS).arg(format!("-max_total_time={seconds}"));
    command.arg(format!("-artifact_prefix={}/", found.display())).arg(&corpus);
    if seeds.exists() {
        command.arg(&seeds);
    }
    let start = shell.begin(&format!("fuzz {target}"));
    let finished = shell.capture(&mut command)?;
    let executions = final_stat(&finished.output, "stat::number_of_executed_units:").unwrap_or(0);
    let edges = edges(&finished.output).unwrap_or(0);
    let ok = finished.status.success() && executions > 0;
    shell.end(&format!("fuzz {target}: {executions} inputs, {edges} edges"), start, ok);
    let failure = (!ok).then(|| failure(shell, target, &program, &finished.output));
    Ok(Fuzzed { failure, output: finished.output })
}

/// libFuzzer writes the offending input to a file and names it. A short one it prints, too, which outlives the machine.
fn failure(shell: &Shell, target: &str, program: &Path, output: &str) -> String {
    let behind = |label| output.lines().find_map(|line| line.split(label).nth(1));
    let mut repeat = shell.command(program);
    repeat.args(behind("Test unit written to "));
    let input = behind("Base64: ").map(|input| format!("; input in base64: {input}"));
    format!("fuzz {target}; repeat: {}{}", display(&repeat, &shell.root), input.unwrap_or_default())
}

fn final_stat(output: &str, name: &str) -> Option<u64> {
    output.lines().rev().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

fn edges(output: &str) -> Option<u64> {
    output.lines().rev().find_map(|line| line.split("cov: ").nth(1)?.split(' ').next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "#2\tINITED cov: 12 ft: 13 corp: 1/1b exec/s: 0 rss: 30Mb\n\
        #1024\tDONE   cov: 345 ft: 600 corp: 40/2Kb lim: 110 exec/s: 512 rss: 40Mb\n\
        stat::number_of_executed_units: 1024\n";

    #[test]
    fn figures_are_read_from_the_report() {
        assert_eq!(edges(OUTPUT), Some(345));
        assert_eq!(final_stat(OUTPUT, "stat::number_of_executed_units:"), Some(1024));
    }

    #[test]
    fn a_crash_is_repeated_with_its_input() {
        let shell = Shell { root: "/r".into(), ..Shell::new(false) };
        let output = "x\nartifact_prefix='/r/f/'; Test unit written to /r/f/crash-1\n";
        let named = "fuzz wire; repeat: wire /r/f/crash-1";
        assert_eq!(failure(&shell, "wire", Path::new("/r/wire"), output), named);
        let printed = failure(&shell, "wire", Path::new("/r/wire"), &format!("{output}Base64: AQM=\n"));
        assert_eq!(printed, format!("{named}; input in base64: AQM="));
    }
}
