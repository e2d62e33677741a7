//! Runs the programs that make a cluster.

use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};

use crate::Error;

/// The Debian package of each program.
const PACKAGES: &[(&str, &str)] = &[
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("nsenter", "util-linux"),
    ("setsid", "util-linux"),
    ("unshare", "util-linux"),
];

/// Returns the error of a program that couldn't be started.
pub fn not_started(program: &'static str, source: std::io::Error) -> Error {
    let package = PACKAGES.iter().find(|(name, _)| *name == program).map_or("util-linux", |(_, package)| package);
    Error::Program { program, package, source }
}

/// Checks that the caller is root, and that the programs are installed.
pub fn check() -> Result<(), Error> {
    let user = rustix::process::geteuid();
    if !user.is_root() {
        return Err(Error::NotRoot { user: user.as_raw() });
    }
    check_programs()
}

/// Checks that all programs are installed.
fn check_programs() -> Result<(), Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let missing = |program: &str| !std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    match PACKAGES.iter().find(|(program, _)| missing(program)) {
        Some((program, _)) => Err(not_started(program, ErrorKind::NotFound.into())),
        None => Ok(()),
    }
}

/// Runs `program` with `input`; returns its standard error if it fails.
pub fn with_input(program: &'static str, arguments: &[&str], input: &str) -> Result<Result<(), String>, Error> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| not_started(program, error))?;
    let mut stdin = child.stdin.take().expect("standard input is a pipe");
    // A program that ends early reports the reason on standard error.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().map_err(|error| not_started(program, error))?;
    let text = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Ok(if output.status.success() { Ok(()) } else { Err(format!("{text} ({})", output.status)) })
}

/// Runs `program -batch` (`ip` or `tc`) in the network namespace of the process `pid`, which is that
/// of `owner`.
pub fn inside(pid: u32, owner: &str, program: &str, batch: &str) -> Result<(), Error> {
    if batch.is_empty() {
        return Ok(());
    }
    let net = format!("--net=/proc/{pid}/ns/net");
    with_input("nsenter", &[&net, "--", program, "-batch", "-"], batch)?
        .map_err(|output| Error::Step { step: format!("the network of {owner}, by `{program}`"), output })
}
