//! The seeded simulation.

use std::path::PathBuf;

use anyhow::Result;

use crate::shell::Shell;

/// What to simulate.
#[derive(Clone, Copy, Debug)]
pub enum Runs {
    /// This seed, with a trace of all that happens.
    One(u64),
    /// So many seeds, from 0 on.
    Many(u64),
    /// As many new seeds as fit into so many minutes.
    Minutes(u64),
}

/// Simulates, and returns the simulator's report. A failure names its seed.
pub fn run(shell: &Shell, runs: Runs) -> Result<String> {
    let mut command = shell.command(build(shell)?);
    match runs {
        Runs::One(seed) => command.arg(format!("--seed={seed}")),
        Runs::Many(seeds) => command.arg(format!("--seeds={seeds}")),
        Runs::Minutes(minutes) => command.arg(format!("--minutes={minutes}")).arg(format!("--first={}", first_seed())),
    };
    shell.run(&mut command)
}

/// As tests are built: with all checks, and a panic is reported with its seed. Of the whole workspace, and with a test
/// of the simulator's beside it, so that its crates have the features that `cargo test --workspace` has built them with:
/// alone it would have others, and be compiled again.
fn build(shell: &Shell) -> Result<PathBuf> {
    shell.run(&mut shell.cargo(&["build", "--quiet", "--workspace", "--bin=headwater-sim", "--test=seeds"]))?;
    Ok(shell.path("target/debug/headwater-sim"))
}

/// A seed that nothing has begun with before.
fn first_seed() -> u64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    // Each second has room for a million seeds; none of them is one of those that tests run.
    since.as_secs().wrapping_mul(1_000_000)
}
