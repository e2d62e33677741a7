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
mod parameters;
mod plan;
mod program;
mod queue;
mod startup;
mod storage;
mod trace;
mod wires;
mod without;
mod world;

pub use parameters::{Daemon, FileSystem, Network, Node, ParameterError, Tier};
pub use plan::{Plan, Trial, plan, readers};
pub use storage::Counts;
pub use trace::{Kind, Lookup, Trace, TraceError};

use headwater_topology::Forest;

use crowd::Crowd;
use program::Program;
use world::World;

/// Nodes up to which all are simulated if nothing is said.
const EXACT_NODES_MAX: u32 = 512;

/// Told how much of a simulation is done, from 0 to 1.
pub type Progress<'a> = dyn FnMut(f64) + 'a;

/// Where a program is started.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Network and nodes.
    pub network: Network,
    /// The shared file system.
    pub file_system: FileSystem,
    /// Processes on each node, 1 or more.
    pub processes: u32,
    /// What is left to chance follows from it.
    pub seed: u64,
}

/// How much is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Every node.
    Exact,
    /// Some hundred nodes, whose others do as they do.
    Sample,
}

impl Detail {
    /// Every node up to a thousand or so, where that takes seconds.
    pub fn for_nodes(nodes: u32) -> Detail {
        if nodes <= EXACT_NODES_MAX { Detail::Exact } else { Detail::Sample }
    }
}

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

/// Starts a program on all nodes of a forest, with Headwater.
///
/// # Errors
/// The trace contradicts itself.
pub fn with_headwater(
    trace: &Trace,
    machine: &Machine,
    forest: Forest,
    detail: Detail,
    progress: &mut Progress<'_>,
) -> Result<Outcome, TraceError> {
    let program = Program::new(trace)?;
    let crowd = match detail {
        Detail::Exact => Crowd::all(forest.ranks()),
        Detail::Sample => Crowd::sample(&forest, machine.seed),
    };
    Ok(World::new(&program, machine, forest, crowd).run(progress))
}

/// Starts it without.
///
/// # Errors
/// The trace contradicts itself.
pub fn without_headwater(trace: &Trace, machine: &Machine, nodes: u32) -> Result<Outcome, TraceError> {
    Ok(without::start(&Program::new(trace)?, machine, nodes))
}

/// Seconds from "start" until every daemon of a forest has all its links, and the launcher knows it.
pub fn ready_seconds(forest: &Forest, machine: &Machine) -> f64 {
    startup::ready_seconds(forest, machine)
}
