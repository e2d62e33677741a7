//! Paths that only the kernel still knows.

use std::collections::{HashSet, VecDeque};

use headwater_abi::Path;

/// Paths that only the kernel still knows.
#[derive(Debug, Default)]
pub(crate) struct Forgetting {
    pub(crate) waiting: HashSet<Path>,
    /// All that wait, and some that wait no more.
    pub(crate) order: VecDeque<Path>,
    /// Paths whose record was made for nothing but a number.
    pub(crate) numbered: VecDeque<Path>,
}
