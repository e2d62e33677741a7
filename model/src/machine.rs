//! The machine on which a program is started.

use crate::parameters::{FileSystem, Network};

/// Where a program is started.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Network and nodes.
    pub network: Network,
    /// The shared file system.
    pub file_system: FileSystem,
    /// Processes on each node, 1 or more.
    pub processes: u32,
    /// What is left to chance follows from it.
    pub seed: u64,
}
