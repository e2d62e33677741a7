//! The version and the files in the node's directory that a node's owner and proxies share.

use std::fs::{self, File};
use std::io;
use std::iter::Sum;
use std::os::unix::fs::OpenOptionsExt;
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

/// Returns the path of the file with the numbers of forked processes.
pub(super) fn count(node: &Path) -> PathBuf {
    node.join("warm.ranks")
}

/// Returns whether no other rank of this node was refused before; `None` if that can't be found out.
///
/// The node's first rank may have been forked from a zygote where others are refused, as by their control groups.
pub fn is_first_refusal(node: Option<&Path>) -> Option<bool> {
    match File::options().write(true).create_new(true).mode(0o600).open(node?.join("warm.refused")) {
        Ok(_) => Some(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Some(false),
        Err(_) => None,
    }
}

/// Processes that zygotes forked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forked {
    /// Those that the launcher started.
    pub ranks: u32,
    /// Those that these started.
    pub children: u32,
}

impl Forked {
    /// Reads a node's numbers.
    pub fn of(node: &Path) -> Forked {
        let text = fs::read_to_string(count(node)).unwrap_or_default();
        let mut numbers = text.split_whitespace().map(|number| number.parse().unwrap_or(0));
        Forked { ranks: numbers.next().unwrap_or(0), children: numbers.next().unwrap_or(0) }
    }

    /// Writes them. They serve statistics only.
    pub(super) fn note(self, node: &Path) {
        let _ = fs::write(count(node), format!("{} {}\n", self.ranks, self.children));
    }
}

impl Sum for Forked {
    fn sum<I: Iterator<Item = Forked>>(all: I) -> Forked {
        all.fold(Forked::default(), |sum, one| Forked {
            ranks: sum.ranks + one.ranks,
            children: sum.children + one.children,
        })
    }
}
