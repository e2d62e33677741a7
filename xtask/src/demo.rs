//! The demonstration: a Python program with many modules on several nodes, with and without Headwater.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::shell::{Shell, display};
use crate::strace::{self, Operations};
use crate::{dist, setup};

const NODES: u64 = 4;
const PROCESSES_PER_NODE: u64 = 4;
const PROCESSES: u64 = NODES * PROCESSES_PER_NODE;
const PROGRAM: &str = "import scipy.stats";
const MODULES: [&str; 2] = ["numpy", "scipy"];
/// Represents the directory on a shared file system where software is installed.
const SHARED: &str = "target/demo/shared";
const BAR_WIDTH: u64 = 44;

/// Builds, prepares and runs it, and prints what happened.
pub fn run(shell: &Shell) -> Result<()> {
    println!("`python3 -c \"{PROGRAM}\"`: {PROCESSES_PER_NODE} processes on each of {NODES} nodes of this machine;");
    println!("the interpreter and its packages lie in {SHARED}, which represents a shared file system.\n");
    setup::run(shell)?;
    dist::run(shell)?;
    let python = environment(shell)?;
    let summary = with_headwater(shell, &python)?;
    println!();
    let plain = shell.step("count the operations of one plain process", || {
        let mut command = shell.command(&python);
        counted(shell, command.args(["-c", PROGRAM]))
    })?;
    let headwater = shell.step(&format!("count those of {PROCESSES} processes with Headwater"), || {
        counted(shell, &mut headwater(shell, &python, &["--no-summary".as_ref()]))
    })?;
    compare(plain, headwater, &summary)
}

/// The interpreter of an environment with the packages; made once.
fn environment(shell: &Shell) -> Result<PathBuf> {
    let directory = shell.path(SHARED).join("venv");
    let python = directory.join("bin/python3");
    let complete = shell.path("target/demo/environment-complete");
    if complete.exists() && python.exists() {
        return Ok(python);
    }
    if directory.exists() {
        std::fs::remove_dir_all(&directory)?;
    }
    let system = if Path::new("/usr/bin/python3").exists() { "/usr/bin/python3" } else { "python3" };
    shell.step("make a Python environment", || {
        // A real copy of the interpreter, as an installation on a shared file system has one.
        shell.run(shell.command(system).args(["-m", "venv", "--copies"]).arg(&directory))
    })?;
    shell.step(&format!("install {} (once; some minutes)", MODULES.join(" and ")), || {
        let mut pip = shell.command(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(MODULES);
        shell.run(&mut pip)
    })?;
    std::fs::write(complete, "")?;
    Ok(python)
}

/// Runs `command` under strace and counts the calls that it and all its children make on the shared directory.
fn counted(shell: &Shell, command: &mut Command) -> Result<Operations> {
    let logs = shell.path("target/demo/strace");
    if logs.exists() {
        std::fs::remove_dir_all(&logs)?;
    }
    std::fs::create_dir_all(&logs)?;
    let mut traced = shell.command("strace");
    traced.args(["-ff", "-qq", "-y", "-e", strace::CALLS, "-o"]).arg(logs.join("process"));
    traced.arg(command.get_program()).args(command.get_args());
    shell.run(&mut traced)?;
    let mut operations = Operations::default();
    for log in std::fs::read_dir(&logs)? {
        operations += strace::count(&std::fs::read_to_string(log?.path())?, &shell.path(SHARED).to_string_lossy());
    }
    Ok(operations)
}

/// `headwater run` with everything but the options of its report, which precede the program.
fn headwater(shell: &Shell, python: &Path, report: &[&OsStr]) -> Command {
    let mut command = shell.command(shell.path("target/dist/bin/headwater"));
    command.args([
        "run",
        "--via=audit",
        &format!("--nodes={NODES}"),
        &format!("--ppn={PROCESSES_PER_NODE}"),
        "--shared",
    ]);
    command.arg(shell.path(SHARED)).args(report).arg("--").arg(python).args(["-c", PROGRAM]);
    command
}

fn with_headwater(shell: &Shell, python: &Path) -> Result<Value> {
    let file = shell.path("target/demo/summary.json");
    let mut command = headwater(shell, python, &["--summary".as_ref(), "--summary-json".as_ref(), file.as_ref()]);
    let shown = display(&command, &shell.root);
    println!("\n$ {shown}");
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    ensure!(status.success(), "{status}: {shown}");
    let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let summary: Value = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
    if let Some(why) = summary["off"].as_str() {
        bail!("Headwater was not used: {why}");
    }
    Ok(summary)
}

fn compare(plain: Operations, headwater: Operations, summary: &Value) -> Result<()> {
    let number = |path: &str| {
        let value =
            summary.pointer(path).and_then(Value::as_u64).with_context(|| format!("no {path} in the summary"))?;
        Ok::<_, anyhow::Error>(grouped(value))
    };
    ensure!(plain.all > 0, "strace saw no operation on {SHARED}");
    println!("\nOpens, stats and directory reads on the shared directory by {PROCESSES} processes, counted by strace:");
    chart(&[("plain", plain.all * PROCESSES), ("with Headwater", headwater.all)]);
    println!("of which for names that do not exist:");
    chart(&[("plain", plain.absent * PROCESSES), ("with Headwater", headwater.absent)]);
    println!(
        "\nHeadwater read {} files and {} directories, once for all nodes, and answered {} of {} look-ups\n\
         in the processes themselves, without a message. Times mean little here, since the directory lies\n\
         on a warm local disk; `cargo xtask bench` measures with one as slow as a busy file server.",
        number("/shared_fs/files_read")?,
        number("/shared_fs/directories_read")?,
        number("/clients/answered_by_table")?,
        number("/clients/lookups")?,
    );
    Ok(())
}

fn chart(rows: &[(&str, u64)]) {
    let longest = rows.iter().map(|row| row.1).max().unwrap_or(0);
    for &(name, value) in rows {
        println!("  {name:<15} {} {}", bar(value, longest), grouped(value));
    }
}

/// A bar in eighths of a character; something that is not nothing is seen.
fn bar(value: u64, longest: u64) -> String {
    let eighths = if longest == 0 { 0 } else { (value * BAR_WIDTH * 8).div_ceil(longest) };
    let mut bar = "█".repeat((eighths / 8) as usize);
    bar.extend(" ▏▎▍▌▋▊▉".chars().nth((eighths % 8) as usize).filter(|_| eighths % 8 > 0));
    bar
}

/// Digits in groups of three.
fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (number, digit) in digits.chars().enumerate() {
        if number > 0 && (digits.len() - number).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_groups() {
        for (value, text) in [(0, "0"), (123, "123"), (1234, "1,234"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(value), text);
        }
    }

    #[test]
    fn bars() {
        assert_eq!(bar(0, 100), "");
        assert_eq!(bar(1, 1_000_000), "▏");
        assert_eq!(bar(100, 100).chars().count() as u64, BAR_WIDTH);
        assert_eq!(bar(50, 100).chars().count() as u64, BAR_WIDTH / 2);
        assert_eq!(bar(0, 0), "");
    }
}
