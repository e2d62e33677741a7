//! From "start" to all daemons ready: the launcher starts nodes as a tree, a daemon listens and dials its
//! parents, both ends of a link shake hands, and a daemon that is dialled before it listens is dialled
//! again.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use headwater_topology::{Forest, Rank};

use crate::Machine;
use crate::crowd::Crowd;
use crate::parameters::us;

/// The shortest and the longest time before a daemon dials again; between them, this part of the time since
/// it dialled first.
const AGAIN_MS: [f64; 2] = [20.0, 1000.0];
const AGAIN_PART: u64 = 16;
/// Ranks up to which each is simulated.
const RANKS_EXACT_MAX: u32 = 20_000;

/// Returns the seconds from "start" until every daemon of a forest has all its links, and the launcher knows it.
pub fn ready_seconds(forest: &Forest, machine: &Machine) -> f64 {
    let crowd = match forest.ranks() {
        0..=RANKS_EXACT_MAX => Crowd::all(forest.ranks()),
        _ => Crowd::sample(forest, machine.seed),
    };
    let (network, node) = (&machine.network, &machine.network.node);
    let launched = |rank: u32| us(f64::from(level(rank, node.launch_fan_out)) * node.launch_ms * 1e3);
    let mut cores = vec![0u64; if node.one_machine { node.cores as usize } else { 0 }];
    let start_ns = us(network.daemon.start_ms * 1e3);
    let mut free: HashMap<u32, u64> = HashMap::new();
    let up = |&rank: &u32| parents(forest, rank).into_iter().chain([rank]);
    let ranks: BTreeSet<u32> = crowd.members.iter().flat_map(up).collect();
    for rank in ranks {
        let listens = match cores.iter_mut().min() {
            Some(core) => {
                *core = (*core).max(launched(rank)) + start_ns;
                *core
            }
            None => launched(rank) + start_ns,
        };
        free.insert(rank, listens);
    }
    let listens = free.clone();
    let mut last = listens.values().copied().max().unwrap_or(0);
    let (trip, work) = (2 * us(network.latency_us), us(network.daemon.handshake_us));
    let links = crowd.members.iter().flat_map(|&rank| parents(forest, rank).into_iter().map(move |up| (rank, up)));
    // A connection and its greeting, then the work of the dialling end, then of the other.
    let begun = links.map(|(rank, up)| Reverse((dialled(listens[&rank], listens[&up]) + 2 * trip, true, rank, up)));
    let mut handshakes: BinaryHeap<_> = begun.collect();
    while let Some(Reverse((at, is_first, rank, up))) = handshakes.pop() {
        let free = free.entry(if is_first { rank } else { up }).or_default();
        *free = at.max(*free) + work;
        last = last.max(*free);
        if is_first {
            handshakes.push(Reverse((*free + trip / 2, false, rank, up)));
        }
    }
    // Readiness is reported up the launcher's tree.
    let levels = level(forest.ranks().saturating_sub(1), node.launch_fan_out);
    (last + u64::from(levels) * trip) as f64 / 1e9
}

fn parents(forest: &Forest, rank: u32) -> Vec<u32> {
    let trees = forest.tree_ids().filter(|&tree| forest.contains(tree, Rank(rank)));
    let mut parents: Vec<u32> = trees.filter_map(|tree| forest.parent(tree, Rank(rank))).map(|r| r.0).collect();
    parents.sort_unstable();
    parents.dedup();
    parents
}

/// Returns when a daemon that dials from one time on reaches one that listens from another.
fn dialled(from_ns: u64, listens_ns: u64) -> u64 {
    let [least, most] = AGAIN_MS.map(|ms| us(ms * 1e3));
    let mut at = from_ns;
    while at < listens_ns {
        at += ((at - from_ns) / AGAIN_PART).clamp(least, most);
    }
    at
}

/// Returns the levels of the launcher's tree above and with a node.
fn level(rank: u32, fan_out: u32) -> u32 {
    let (mut level, mut first, mut width) = (1, 0u64, u64::from(fan_out));
    while u64::from(rank) >= first + width && fan_out > 1 {
        first += width;
        width *= u64::from(fan_out);
        level += 1;
    }
    level
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileSystem, Network};
    use headwater_topology::Shape;

    #[test]
    fn a_launcher_starts_levels() {
        assert_eq!([0, 1, 2, 5, 6, 13, 14].map(|rank| level(rank, 2)), [1, 1, 2, 2, 3, 3, 4]);
        assert_eq!(level(8299, 32), 3);
    }

    #[test]
    fn a_daemon_that_dials_too_early_dials_again() {
        assert_eq!(dialled(5_000_000, 0), 5_000_000);
        assert_eq!(dialled(0, 25_000_000), 40_000_000);
        assert!((1..1_000).all(|late| dialled(0, late * 10_000_000) <= late * 10_625_000 + 20_000_000));
    }

    #[test]
    fn every_node_is_ready_soon() {
        let mut machine =
            Machine { network: Network::default(), file_system: FileSystem::default(), processes: 1, seed: 1 };
        let seconds =
            |machine: &Machine, ranks| ready_seconds(&Forest::new(ranks, 0, Shape::default_of(ranks)), machine);
        assert!((seconds(&machine, 1) - 0.125).abs() < 0.001, "one level and one start");
        let (few, many) = (seconds(&machine, 64), seconds(&machine, 8300));
        assert!(few < many && many < 1.5, "{few} and {many}");
        machine.network.node.one_machine = true;
        machine.network.node.cores = 2;
        assert!(seconds(&machine, 64) > 64.0 * 0.025 / 2.0);
    }
}
