//! The command `headwater`.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::shell::Shell;

/// Builds the command, linked statically: one file that starts on any node without a search. Returns its path.
pub fn build(shell: &Shell) -> Result<PathBuf> {
    let target = host(shell)?;
    let mut command = shell.cargo(&["build", "--quiet", "--release", "--package", "headwater", "--target", &target]);
    command.env("RUSTFLAGS", "-C target-feature=+crt-static");
    shell.run(&mut command)?;
    Ok(shell.path("target").join(target).join("release/headwater"))
}

/// Returns this machine's target triple. With it, cargo does not apply flags to build scripts and macros.
pub fn host(shell: &Shell) -> Result<String> {
    let version = shell.run(shell.command("rustc").arg("-vV"))?;
    let line = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(line.context("`rustc -vV` names no host")?.to_owned())
}
