//! Commands on the nodes of a running cluster.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;

use anyhow::{Context, Result};
use headwater_cluster::{Error, Node, Running};

/// Runs `command` on the node of this name or number, or on `all`. On one node it replaces this process, with its
/// streams, its signals and its end; from all, lines are printed as they arrive, and the status is the first that isn't
/// 0, in the order of the nodes.
pub fn run(running: &Running, node: &str, command: &[String]) -> Result<ExitCode> {
    if node == "all" {
        return everywhere(running, command);
    }
    let node = alive(running, running.find(node)?)?;
    let error = on(node, command).exec();
    Err(error).with_context(|| format!("cannot enter {} with `nsenter`, of the package util-linux", node.name))
}

fn on(node: &Node, command: &[String]) -> Command {
    let (program, arguments) = command.split_first().expect("a command has a program");
    let mut command = node.command(program);
    command.args(arguments);
    command
}

fn alive<'a>(running: &Running, node: &'a Node) -> Result<&'a Node, Error> {
    let dead = || Error::Dead { cluster: running.name.clone(), node: node.name.clone() };
    if node.is_alive() { Ok(node) } else { Err(dead()) }
}

fn everywhere(running: &Running, command: &[String]) -> Result<ExitCode> {
    let mut children = Vec::new();
    for node in &running.nodes {
        children.push((node, spawn(alive(running, node)?, command)?));
    }
    let statuses: Vec<_> = thread::scope(|scope| {
        let mut waiting = Vec::new();
        for (node, child) in &mut children {
            let output = child.stdout.take().expect("standard output is a pipe");
            let errors = child.stderr.take().expect("standard error is a pipe");
            scope.spawn(|| prefix(&node.name, output, std::io::stdout()));
            scope.spawn(|| prefix(&node.name, errors, std::io::stderr()));
            waiting.push(scope.spawn(|| child.wait()));
        }
        waiting.into_iter().map(|thread| thread.join().expect("waiting doesn't panic")).collect()
    });
    let mut worst = 0;
    for ((node, _), status) in children.iter().zip(statuses) {
        let status = code(status.with_context(|| format!("cannot wait for the command on {}", node.name))?);
        if status != 0 {
            eprintln!("{}: exit status {status}", node.name);
        }
        worst = if worst == 0 { status } else { worst };
    }
    Ok(ExitCode::from(worst))
}

/// Starts the command on a node, so that it ends with this process.
fn spawn(node: &Node, command: &[String]) -> Result<Child> {
    let entering = on(node, command);
    // The signal arrives when the thread that starts it ends, which is the first.
    let mut child = Command::new("setpriv");
    child.args(["--pdeathsig=KILL", "--"]).arg(entering.get_program()).args(entering.get_args());
    child.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    child.spawn().with_context(|| format!("cannot enter {} with `setpriv`, of the package util-linux", node.name))
}

/// Copies each line, after the node's name.
fn prefix(name: &str, from: impl Read, mut to: impl Write) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        if !from.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            return;
        }
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        // One call, so that lines of several nodes don't mix.
        if to.write_all(&[name.as_bytes(), b": ", line.as_slice()].concat()).is_err() {
            return;
        }
    }
}

/// As a shell has it: the signal's number follows 128.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_prefixed() {
        let mut to = Vec::new();
        prefix("node001", b"a\n\nb".as_slice(), &mut to);
        assert_eq!(String::from_utf8(to).unwrap(), "node001: a\nnode001: \nnode001: b\n");
    }

    #[test]
    fn statuses() {
        assert_eq!(code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(code(ExitStatus::from_raw(15)), 143);
        assert_eq!(code(ExitStatus::from_raw(0)), 0);
    }
}
