//! The command `headwater`.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::shell::Shell;
use crate::system::System;

/// Builds the command, linked statically: one file that starts on any node without a search. Returns its path.
pub fn build(shell: &Shell) -> Result<PathBuf> {
    let target = match shell.system {
        System::Here => host(shell)?,
        System::Released(architecture) => architecture.rust_target(),
    };
    let mut command = shell.cargo(&["build", "--quiet", "--release", "--package", "headwater", "--target", &target]);
    command.env("RUSTFLAGS", "-C target-feature=+crt-static");
    if target != host(shell)? {
        let installed = shell.path(shell.run(shell.command("rustc").args(["--print", "sysroot"]))?.trim());
        let library = installed.join("lib/rustlib").join(&target);
        ensure!(library.exists(), "Rust's standard library for {target} is missing: rustup target add {target}");
        let (compiler, _) = shell.system.compiler(&shell.root);
        let name = target.replace('-', "_");
        command.env(format!("CARGO_TARGET_{}_LINKER", name.to_uppercase()), &compiler);
        command.env(format!("CC_{name}"), compiler);
    }
    shell.run(&mut command)?;
    Ok(shell.path("target").join(target).join("release/headwater"))
}

/// Returns this machine's target triple. With it, cargo does not apply flags to build scripts and macros.
pub fn host(shell: &Shell) -> Result<String> {
    let version = shell.run(shell.command("rustc").arg("-vV"))?;
    let line = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(line.context("`rustc -vV` names no host")?.to_owned())
}
