//! The release in a root.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::release;
use crate::roots::Root;
use crate::shell::Shell;
use crate::system::Architecture;

/// Installs the release for an architecture to `/usr`. Returns how long it took.
pub fn install(shell: &Shell, root: &Root<'_>, architecture: Architecture) -> Result<Duration> {
    let archive = release::archive(shell, architecture);
    ensure!(archive.exists(), "{} is missing: run `cargo xtask release` first", archive.display());
    let start = Instant::now();
    // The smallest system has no xz.
    shell.run(shell.command("tar").arg("-xf").arg(&archive).arg("-C").arg(root.outside("tmp")))?;
    let script = "sh headwater-*/install.sh --prefix /usr && rm -r headwater-*";
    shell.run(root.command("sh", Path::new("/tmp")).args(["-euc", script]))?;
    Ok(start.elapsed())
}
