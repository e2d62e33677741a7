//! A run's finding, and the expectations that lead to it.

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

/// An unmet expectation, without its place and time.
pub(crate) type Check = Result<(), String>;

/// Fails with `what` unless it `holds`.
pub(crate) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(what()) }
}
