//! A program's start, with Headwater and without.

use headwater_topology::Forest;

use crate::crowd::Crowd;
use crate::outcome::{Outcome, Progress};
use crate::parameters::Machine;
use crate::program::Program;
use crate::trace::{Trace, TraceError};
use crate::without;
use crate::world::World;

/// Nodes up to which all are simulated by default.
const EXACT_NODES_MAX: u32 = 512;

/// The extent of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Every node.
    Exact,
    /// Some hundred nodes, which represent the others.
    Sample,
}

impl Detail {
    /// Returns every node up to a number that takes seconds, else a sample.
    pub fn for_nodes(nodes: u32) -> Detail {
        if nodes <= EXACT_NODES_MAX { Detail::Exact } else { Detail::Sample }
    }
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
