//! What the owner and the proxies of a node share: their version, and files in the node's directory.

use std::path::{Path, PathBuf};

/// Which sources both were made of: a description has the layout of C structures.
pub(super) const BUILD: &str = env!("WARM_BUILD");

/// The owner's socket, in the node's directory.
pub(super) fn socket(node: &Path) -> PathBuf {
    node.join("warm")
}

/// Locked by who starts the owner.
pub(super) fn lock(node: &Path) -> PathBuf {
    node.join("warm.lock")
}

/// The file with how many ranks have come from zygotes.
pub(super) fn count(node: &Path) -> PathBuf {
    node.join("warm.ranks")
}

/// How many ranks of this node have come from zygotes.
pub fn ranks_of(node: &Path) -> u32 {
    std::fs::read_to_string(count(node)).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}
