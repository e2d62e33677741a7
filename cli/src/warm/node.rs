//! The version and the files in the node's directory that a node's owner and proxies share.

use std::path::{Path, PathBuf};

/// A digest of the sources: a description has the layout of C structures.
pub(super) const BUILD: &str = env!("WARM_BUILD");

/// Returns the path of the owner's socket.
pub(super) fn socket(node: &Path) -> PathBuf {
    node.join("warm")
}

/// Returns the path of the file that a proxy locks while it starts the owner.
pub(super) fn lock(node: &Path) -> PathBuf {
    node.join("warm.lock")
}

/// Returns the path of the file with the number of ranks from zygotes.
pub(super) fn count(node: &Path) -> PathBuf {
    node.join("warm.ranks")
}

/// Reads the number of this node's ranks from zygotes.
pub fn ranks_of(node: &Path) -> u32 {
    std::fs::read_to_string(count(node)).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}
