//! Simulated sessions: many [`Node`](headwater_proto::Node)s over a model of network, shared file
//! system, stores, processes and faults. The whole run, the faults included, is drawn from one seed.
//!
//! [`run`] first checks safety while faults happen, then, once they have stopped, that everything comes
//! to an end, and that what can be had is had.

mod check;
mod options;
mod random;
mod reader;
mod seeds;
mod site;
mod store;
mod summary;
mod tree;
mod world;

pub use options::Options;
pub use seeds::{Until, run_seeds};
pub use summary::Summary;

use std::panic::{AssertUnwindSafe, catch_unwind};

use thiserror::Error;

/// A property that did not hold.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("seed {seed}, at {at_ms} ms, rank {rank}: {what}\nrepeat: cargo xtask sim --seed {seed}")]
pub struct Violation {
    /// The seed that repeats it.
    pub seed: u64,
    /// The simulated time.
    pub at_ms: u64,
    /// The node where it was seen.
    pub rank: u32,
    /// The property and the object.
    pub what: String,
}

/// Runs one session; with `trace`, each input and output is printed.
///
/// # Errors
/// The first property that does not hold. A panic is one, too.
pub fn run(seed: u64, trace: bool) -> Result<Summary, Violation> {
    let result = catch_unwind(AssertUnwindSafe(|| world::World::new(seed, trace).run()));
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        let what = format!("a panic: {}", text.unwrap_or("without a text"));
        Err(Violation { seed, at_ms: 0, rank: 0, what })
    })
}
