//! A test that is a C program.

use std::process::Command;

use anyhow::Result;

use super::report::Tally;
use crate::shell::{Shell, display};

/// Exit status by which a C test reports that it was skipped, as in Automake.
const SKIPPED: i32 = 77;

const C_TEST_SECONDS_MAX: u64 = 120;

/// The compiler's flags for C code under test.
pub const SANITIZER_FLAGS: &[&str] = &[
    "-g",
    "-O1",
    "-DHWA_HOSTED",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
];

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
