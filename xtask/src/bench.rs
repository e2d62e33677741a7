//! The benchmarks: the programs that measure are built here and run by themselves.

use anyhow::{Context, Result, ensure};

use crate::setup::Purpose;
use crate::shell::{Shell, display};
use crate::{dist, setup};

/// Builds the measured programs and the measuring ones, and runs the benchmarks with these arguments.
pub fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    setup::run(shell, Purpose::All)?;
    dist::run(shell)?;
    let package = ["--quiet", "--release", "--package=headwater-tests"];
    // With the counting file system that it starts.
    shell.step("build the benchmarks", || shell.run(shell.cargo(&["build"]).args(package).arg("--bins")))?;
    let mut command = shell.cargo(&["run"]);
    command.args(package).args(["--bin=bench", "--"]).args(arguments);
    let status = command.status().context("cannot start cargo")?;
    ensure!(status.success(), "{status}: {}", display(&command, &shell.root));
    Ok(())
}
