//! A test that is a C program.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::report::Tally;
use crate::cc;
use crate::shell::{Shell, display};
use crate::system::{Architecture, System};

/// Exit status by which a C test reports that it was skipped, as in Automake.
const SKIPPED: i32 = 77;

const C_TEST_SECONDS_MAX: u64 = 120;

/// Some code is freestanding where it isn't tested.
const FLAGS: &[&str] = &["-g", "-O1", "-DHWA_HOSTED"];
/// An emulator has no room for the sanitizers' shadows.
const SANITIZERS: &[&str] = &["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];

/// The build directory of the C tests.
pub fn directory(shell: &Shell) -> PathBuf {
    shell.built("c-tests")
}

/// The compiler for C code under test.
pub fn compiler(shell: &Shell) -> Command {
    let mut command = cc::compiler(shell);
    command.args(FLAGS);
    if shell.system == System::Here {
        command.args(SANITIZERS);
    }
    command
}

/// A command that starts a compiled test, by an emulator if it is another architecture's.
pub fn start(shell: &Shell, program: &Path) -> Command {
    match shell.system {
        System::Released(architecture) if Architecture::here().ok() != Some(architecture) => {
            let mut command = shell.command(format!("qemu-{}-static", architecture.name()));
            command.arg("-L").arg(shell.path(architecture.sysroot())).arg(program);
            command
        }
        _ => shell.command(program),
    }
}

/// Runs a C test to its end.
pub fn run_c(shell: &Shell, name: &str, program: &mut Command) -> Result<Tally> {
    // Freestanding code allocates nothing, and finding leaks needs ptrace.
    program.env("ASAN_OPTIONS", "detect_leaks=0");
    let finished = shell.capture_limited(program, C_TEST_SECONDS_MAX)?;
    let reason = finished.output.lines().find_map(|line| line.strip_prefix("skipped: "));
    Ok(match (finished.status.code(), reason) {
        (Some(0), _) => Tally::passed(),
        (Some(SKIPPED), Some(reason)) => Tally::skipped(format!("{name}: {reason}")),
        _ => {
            let repeat = format!("{name}: {}; repeat: {}", finished.status, display(program, &shell.root));
            Tally { output: finished.output, ..Tally::failed(repeat) }
        }
    })
}
