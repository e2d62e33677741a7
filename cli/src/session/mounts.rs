//! Mounts of Headwater on this machine: valid mount points, and the node that serves a mount.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use headwater_fuse::mount::mounted;
use headwater_store::layout::NodeDir;

use crate::namespace::SUBTYPE;
use crate::session::directory::base_directories;
use crate::session::store;

/// Timeout of an unmount.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the directory without links, as a mount point.
///
/// # Errors
/// It is not a directory, or its name is not UTF-8.
pub fn existing_directory(path: &Path) -> Result<PathBuf> {
    let canonical = path.canonicalize().with_context(|| format!("nothing can be mounted on {}", path.display()))?;
    ensure!(canonical.is_dir(), "nothing can be mounted on {}: it is not a directory", path.display());
    ensure!(canonical.to_str().is_some(), "{}: mount points need names in UTF-8", path.display());
    Ok(canonical)
}

/// Returns the node of the mount at this directory, if it is this user's and has a supervisor.
pub fn node_of(mount_point: &Path, store: Option<&Path>) -> Option<NodeDir> {
    let mounts = mounted(SUBTYPE).unwrap_or_default();
    // The last one is on top.
    let here = mounts.into_iter().rev().find(|mount| mount.mount_point == mount_point)?;
    node_with(&here.source, store)
}

/// Returns the node of the mount with this source.
pub fn node_with(source: &str, store: Option<&Path>) -> Option<NodeDir> {
    let node = source.strip_prefix(SUBTYPE)?.strip_prefix(':')?;
    let bases = store::candidates(store).into_iter().flat_map(|store| base_directories(&store));
    bases.map(|base| NodeDir::new(base.join(node))).find(|node| node.supervisor().exists())
}

/// Waits until the mount is gone.
///
/// # Errors
/// Timeout.
pub fn wait_until_gone(place: &Path) -> Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    while mounted(SUBTYPE)?.iter().any(|mount| mount.mount_point == place) {
        if Instant::now() >= deadline {
            bail!("{} is still mounted after {} s", place.display(), TIMEOUT.as_secs());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
