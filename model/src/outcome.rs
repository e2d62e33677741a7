//! The result of a simulation.

use crate::storage::Counts;

/// Receives the completed part of a simulation, from 0 to 1.
pub type Progress<'a> = dyn FnMut(f64) + 'a;

/// The result of a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Until the last process has started.
    pub seconds: f64,
    /// Until the processes of the first node have.
    pub first_seconds: f64,
    /// Until those of half of the nodes have.
    pub median_seconds: f64,
    /// Requests to the shared file system.
    pub counts: Counts,
    /// Messages that simulated nodes received.
    pub messages: u64,
    /// Look-ups that used the source file.
    pub fallbacks: u64,
    /// Events of the simulation.
    pub events: u64,
    /// Nodes that were simulated.
    pub simulated: u32,
}
