//! Simulated sessions: many [`Node`](headwater_proto::Node)s over a model of network, shared file
//! system, stores, processes and faults. The whole run is drawn from one seed.
//!
//! [`run`] first checks safety while faults happen, then, once they have stopped, that everything comes
//! to an end, and that what can be had is had.

mod check;
mod options;
mod random;
mod reader;
mod site;
mod store;
mod tree;
mod world;

pub use options::Options;

use thiserror::Error;

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Nodes of the session.
    pub nodes: u32,
    /// Requests of processes.
    pub requests: u64,
    /// Requests that were told to use the original.
    pub fallbacks: u64,
    /// Files opened on the shared file system.
    pub files_opened: u64,
    /// Directories read there.
    pub directories_read: u64,
    /// Entries looked up there.
    pub entries_read: u64,
    /// Messages delivered.
    pub messages: u64,
    /// Content evicted from stores.
    pub evictions: u64,
    /// Things given to children unasked.
    pub pushes: u64,
    /// Names published as further names of a file.
    pub hard_links: u64,
    /// Names examined for all of their directory.
    pub details_read: u64,
    /// Paths forgotten.
    pub forgotten: u64,
    /// Changes of originals that were noticed.
    pub changed: u64,
    /// Links lost, nodes killed, reads and stores failed.
    pub faults: u64,
}

/// A property that did not hold.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("seed {seed}, at {at_ms} ms, rank {rank}: {what}")]
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

/// Runs one session.
///
/// # Errors
/// The first property that does not hold.
pub fn run(seed: u64, options: &Options) -> Result<Summary, Violation> {
    world::World::new(seed, options).run()
}
