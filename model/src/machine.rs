//! The machine on which a program is started.

use crate::parameters::{FileSystem, Network};

/// A machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Network and nodes.
    pub network: Network,
    /// The shared file system.
    pub file_system: FileSystem,
    /// Processes on each node, 1 or more.
    pub processes: u32,
    /// The seed of all random choices.
    pub seed: u64,
}
