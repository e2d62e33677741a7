//! A run's finding.

use thiserror::Error;

/// A property that did not hold.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("seed {seed}, at {at_ms} ms, rank {rank}: {what}\nrepeat: cargo xtask sim --seed {seed}")]
pub struct Violation {
    /// The seed that repeats it.
    pub seed: u64,
    /// The simulated time.
    pub at_ms: u64,
    /// The node.
    pub rank: u32,
    /// The property and the object.
    pub what: String,
}
