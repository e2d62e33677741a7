//! `headwater spawn` as a user sees it: output, placement, statuses, signals, and how processes are made.

mod ends;
mod mechanisms;
mod output;
mod same;

use std::process::{Command, Stdio};

use headwater_tests::harness::headwater_binary;

/// A command's output and status.
struct Seen {
    status: Option<i32>,
    out: String,
    err: String,
}

/// The command with these arguments, and an empty input.
fn command(args: &[&str]) -> Command {
    let mut command = Command::new(headwater_binary());
    command.arg("spawn").args(args).stdin(Stdio::null());
    command
}

fn spawn(args: &[&str]) -> Seen {
    seen(&mut command(args))
}

fn seen(command: &mut Command) -> Seen {
    let output = command.output().expect("the command can be started");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("all of it is text");
    Seen { status: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// The lines in order of the numbers before them, with those.
fn by_rank(text: &str) -> Vec<(usize, &str)> {
    let labelled = text.lines().map(|line| line.split_once(": ").unwrap_or_else(|| panic!("no label: {line}")));
    let mut lines: Vec<(usize, &str)> =
        labelled.map(|(rank, line)| (rank.parse().unwrap_or_else(|_| panic!("no number: {rank}")), line)).collect();
    lines.sort_by_key(|&(rank, _)| rank);
    lines
}
