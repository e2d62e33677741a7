//! Simulated sessions: many [`Node`](headwater_proto::Node)s over a model of network, shared file
//! system, stores, processes and faults. The whole run, the faults included, is drawn from one seed.
//!
//! [`run`] first checks safety while faults happen, then, once they have stopped, that all requests end, and
//! that what can succeed succeeds.

mod check;
mod options;
mod random;
mod reader;
mod seeds;
mod site;
mod store;
mod summary;
mod tree;
mod violation;
mod world;

pub use options::Options;
pub use seeds::{Until, run, run_seeds};
pub use summary::Summary;
pub use violation::Violation;
