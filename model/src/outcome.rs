//! What comes out of a simulation.

use crate::storage::Counts;

/// Gets the part of a simulation that is done, from 0 to 1.
pub type Progress<'a> = dyn FnMut(f64) + 'a;

/// What came out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Until the last process has started.
    pub seconds: f64,
    /// Until the processes of the first node have.
    pub first_seconds: f64,
    /// Until those of half of the nodes have.
    pub median_seconds: f64,
    /// What the shared file system was asked for.
    pub counts: Counts,
    /// Messages that simulated nodes took in.
    pub messages: u64,
    /// Look-ups that were told to use the original.
    pub fallbacks: u64,
    /// Events of the simulation.
    pub events: u64,
    /// Nodes that were simulated.
    pub simulated: u32,
}
