//! The C library and the headers that releases are built against: those of Debian 11, the oldest that Debian carries.
//!
//! Its glibc is 2.31. `release` checks that no file needs a symbol newer than the supported 2.28.

use anyhow::Result;

use crate::apt;
use crate::shell::Shell;
use crate::system::Architecture;

const SUITE: &str = "bullseye";
/// The C library, the kernel's headers, and what the integrations are compiled against.
const PACKAGES: &[&str] = &["libc6", "libc6-dev", "linux-libc-dev", "libslurm-dev", "libfabric1", "libfabric-dev"];

/// Downloads and unpacks it, unless it is there.
pub fn install(shell: &Shell, architecture: Architecture) -> Result<()> {
    let root = shell.path(architecture.sysroot());
    if root.exists() {
        return Ok(());
    }
    apt::unpack(shell, SUITE, architecture, PACKAGES, &root)
}
