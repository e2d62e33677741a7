//! `--ranks-from zygote`: on each node one process does a program's start, and its ranks are forked from that.
//!
//! What a launcher starts stays as the rank's [proxy]: it asks the node's [owner], which it starts if there is none,
//! and then passes signals on and ends as the rank does. The owner has the zygotes. They speak in packets ([packet]),
//! the first of which is a [request]. Until a rank has begun, whatever fails means that the proxy executes the program,
//! as it would have done without all this; a rank that has begun is never begun again.
//!
//! Nothing is left: a rank is killed when its proxy has gone, and by the kernel when the owner has; zygotes end with
//! the owner, and the owner when no proxy has been there for a second.

pub mod options;
mod owner;
mod packet;
mod proxy;
mod request;
pub mod reseed;
mod zygotes;

use std::path::{Path, PathBuf};

pub use owner::serve;
pub use proxy::{NotBegun, Wanted, become_rank};

/// Which sources both were made of: a description has the layout of C structures.
const BUILD: &str = env!("HEADWATER_WARM_BUILD");

/// The owner's socket, in the node's directory.
fn socket(node: &Path) -> PathBuf {
    node.join("warm")
}

/// Locked by who starts the owner.
fn lock(node: &Path) -> PathBuf {
    node.join("warm.lock")
}

/// The file with how many ranks have come from zygotes.
fn count(node: &Path) -> PathBuf {
    node.join("warm.ranks")
}

/// How many ranks of this node have come from zygotes.
pub fn ranks_of(node: &Path) -> u32 {
    std::fs::read_to_string(count(node)).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}
