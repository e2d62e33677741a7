//! The common settings of a session.

use headwater_topology::Forest;

use crate::crowd::Crowd;
use crate::parameters::Machine;
use crate::parameters::us;
use crate::program::Program;

/// Nodes below which one thread is used.
const HALVED_MIN: u32 = 512;
/// The shortest latency for which two threads are worth their synchronisation.
const LATENCY_NS_MIN: u64 = 1000;
#[derive(Debug)]
pub(crate) struct World<'a> {
    pub(crate) program: &'a Program,
    pub(crate) machine: &'a Machine,
    pub(crate) forest: Forest,
    pub(crate) crowd: Crowd,
    /// The first site of each shard.
    pub(super) firsts: Vec<u32>,
}

impl<'a> World<'a> {
    pub(crate) fn new(program: &'a Program, machine: &'a Machine, forest: Forest, crowd: Crowd) -> World<'a> {
        let half = crowd.len() / 2;
        let reads_early = forest.tree_ids().all(|tree| forest.root(tree).0 < half);
        let network = &machine.network;
        let shares_nothing =
            network.tiers.is_empty() && !network.node.one_machine && us(network.latency_us) >= LATENCY_NS_MIN;
        let is_halved = crowd.is_all() && crowd.len() >= HALVED_MIN && reads_early && shares_nothing;
        let firsts = if is_halved { vec![0, half] } else { vec![0] };
        World { program, machine, forest, crowd, firsts }
    }

    /// Returns the same, with one thread.
    #[cfg(test)]
    pub(crate) fn in_one(self) -> World<'a> {
        World { firsts: vec![0], ..self }
    }

    pub(crate) fn shard_of(&self, site: u32) -> u32 {
        self.firsts.partition_point(|&first| first <= site) as u32 - 1
    }
}
