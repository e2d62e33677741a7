//! How long a program takes to start, at any number of nodes, with and without Headwater.
//!
//! - [`Trace`]: what one process looks up, and what it computes between;
//! - [`Machine`]: network, nodes and shared file system;
//! - [`with_headwater`]: the start with Headwater, by real [`Node`](headwater_proto::Node)s over a timed
//!   model: all of them ([`Detail::Exact`]), or a sample that stands for all ([`Detail::Sample`]);
//! - [`without_headwater`]: the same start against the shared file system alone, as a queueing network;
//! - [`ready_seconds`]: how long the daemons themselves take to start;
//! - [`plan`]: which shape of the overlay is best;
//! - [`io`]: what reading or writing a file on one rank for all costs an MPI program, and together.
//!
//! The model and what it leaves out are in `docs/internals/simulation.md`. Results depend on the
//! arguments alone.

mod crowd;
mod data;
pub mod io;
mod machine;
mod outcome;
mod parameters;
mod plan;
mod program;
mod queue;
mod start;
mod startup;
mod storage;
mod trace;
mod wires;
mod without;
mod world;

pub use machine::Machine;
pub use outcome::{Outcome, Progress};
pub use parameters::{Daemon, FileSystem, Network, Node, ParameterError, Tier};
pub use plan::{Plan, Trial, plan, readers};
pub use start::{Detail, with_headwater, without_headwater};
pub use startup::ready_seconds;
pub use storage::Counts;
pub use trace::{Kind, Lookup, Trace, TraceError};
