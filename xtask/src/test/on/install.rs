//! The release in a root.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::release;
use crate::roots::Root;
use crate::shell::Shell;
use crate::system::Architecture;

/// Installs the release for an architecture to `/usr`.
pub fn install(shell: &Shell, root: &Root<'_>, architecture: Architecture) -> Result<()> {
    let archive = release::archive(shell, architecture);
    ensure!(archive.exists(), "{} is missing: run `cargo xtask release` first", archive.display());
    let name = archive.file_name().context("an archive has a name")?;
    std::fs::copy(&archive, root.outside("tmp").join(name))?;
    let script = "tar -xf \"$1\" && rm \"$1\" && sh headwater-*/install.sh --prefix /usr && rm -r headwater-*";
    shell.run(root.command("sh", Path::new("/tmp")).args(["-euc", script, "sh"]).arg(name))?;
    Ok(())
}
