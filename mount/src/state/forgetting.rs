//! Paths that the node has forgotten and the kernel has not.

use std::collections::{HashSet, VecDeque};

use headwater_abi::Path;

/// Paths that the node has forgotten and the kernel has not.
#[derive(Debug, Default)]
pub(crate) struct Forgetting {
    pub(crate) waiting: HashSet<Path>,
    /// All that wait, in order, and some that no longer wait.
    pub(crate) order: VecDeque<Path>,
    /// Paths whose records exist only for their numbers.
    pub(crate) numbered: VecDeque<Path>,
}
