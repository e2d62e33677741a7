//! The plugin of Flux's job shell. It needs none of Flux's headers.

use std::path::Path;

use anyhow::{Context, Result};

use crate::shell::Shell;
use crate::{cc, files};

/// The plugin's sources.
pub const SOURCES: &str = "integrations/flux";
/// Its tests.
pub const TESTS: &str = "integrations/flux/tests";
/// Flux's functions are bound when they are called, as the shell that loads it has them.
const FLAGS: &[&str] = &["-O2", "-g1", "-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-z,relro", "-Wl,--build-id"];

/// Builds the plugin, and copies it and the file that loads it to where they are installed.
pub fn dist(shell: &Shell, dist: &Path) -> Result<()> {
    let mut command = cc::compiler(shell);
    command.args(FLAGS).args(["headwater-flux.c", "parse.c"].map(|source| format!("{SOURCES}/{source}")));
    let library = shell.built("flux").join("headwater_flux.so");
    let trees = [shell.path(SOURCES), shell.path("abi/include")];
    let library = cc::compile(shell, command, &library, &trees)?;
    let name = library.file_name().context("a library has a name")?;
    files::copy_if_changed(&library, &dist.join("lib/headwater").join(name))?;
    let loader = "headwater.lua";
    files::copy_if_changed(&shell.path(SOURCES).join(loader), &dist.join("share/headwater/flux").join(loader))
}
