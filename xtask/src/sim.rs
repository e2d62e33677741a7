//! The seeded simulation.

use anyhow::Result;

use crate::shell::Shell;

/// Simulates `seeds` runs, or the one of `seed`; gives what the simulator reports. A failure names
/// its seed.
pub fn run(shell: &Shell, seeds: u64, seed: Option<u64>) -> Result<String> {
    let mut command = shell.cargo(&["run", "--quiet", "--release", "--package=headwater-sim", "--"]);
    match seed {
        Some(seed) => command.arg(format!("--seed={seed}")),
        None => command.arg(format!("--seeds={seeds}")),
    };
    shell.run(&mut command)
}
