//! `target/roots`: root directories of other systems, in which the release is installed and tested.

mod root;
mod tests;

use std::path::Path;

use anyhow::{Context, Result, ensure};

pub use self::root::{Root, Suite};
pub use self::tests::run;

use crate::release;
use crate::shell::Shell;
use crate::system::Architecture;

/// Installs this machine's release to `/usr`.
fn install(shell: &Shell, root: &Root<'_>) -> Result<()> {
    let archive = release::archive(shell, Architecture::here()?);
    ensure!(archive.exists(), "{} is missing: run `cargo xtask release` first", archive.display());
    let name = archive.file_name().context("an archive has a name")?;
    std::fs::copy(&archive, root.outside("tmp").join(name))?;
    let script = "tar -xf \"$1\" && rm \"$1\" && sh headwater-*/install.sh --prefix /usr && rm -r headwater-*";
    shell.run(root.command("sh", Path::new("/tmp")).args(["-euc", script, "sh"]).arg(name))?;
    Ok(())
}
