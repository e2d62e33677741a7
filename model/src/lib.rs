//! The time that a program takes to start, at any number of nodes, with and without Headwater.
//!
//! - [`Trace`]: the look-ups of one process, and its computing between them;
//! - [`Machine`]: network, nodes and shared file system;
//! - [`with_headwater`]: the start with Headwater, by real [`Node`](headwater_proto::Node)s over a timed
//!   model: all of them ([`Detail::Exact`]), or a sample that represents all ([`Detail::Sample`]);
//! - [`without_headwater`]: the same start on the shared file system alone, as a queueing network;
//! - [`ready_seconds`]: the time that the daemons themselves take to start;
//! - [`plan`]: the best shape of the overlay;
//! - [`io`]: the costs of an MPI program's file access, on one rank for all and on all together.
//!
//! The model and its simplifications are described in `docs/internals/simulation.md`. Results depend on the
//! arguments alone.

mod crowd;
mod data;
pub mod io;
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

pub use outcome::{Outcome, Progress};
pub use parameters::{Daemon, FileSystem, Machine, Network, Node, ParameterError, Tier};
pub use plan::{Plan, Trial, plan, readers};
pub use start::{Detail, with_headwater, without_headwater};
pub use startup::ready_seconds;
pub use storage::Counts;
pub use trace::{Kind, Lookup, Trace, TraceError, is_local, strace_line};
