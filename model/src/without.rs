//! The same start without Headwater: every process does all its look-ups against the shared file system.
//!
//! All processes do the same at the same time, so they reach one metadata server after the other, in convoys,
//! which neither limits nor mean values describe. Up to some number of nodes each node's visits are simulated
//! one by one. Beyond, time grows by what another node adds: for many customers, a line of queues that all
//! pass in the same order takes the time of its slowest part times their number.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use crate::parameters::FileSystem;
use crate::program::{Program, Step};
use crate::storage::{Counts, Operation, Storage, server_of};
use crate::trace::Kind;
use crate::{Machine, Outcome};

/// Visits that are simulated at most, which limits the nodes.
const VISITS_MAX: usize = 4_000_000;
const NODES_MIN: u32 = 64;
const NODES_MAX: u32 = 1024;

/// A node's requests at one step.
#[derive(Clone, Copy, Debug)]
struct Visit {
    operation: Operation,
    /// Processes that send requests to the shared file system; the others use the node's kernel.
    count: u64,
    /// Bytes that the node reads.
    bytes: u64,
}

/// Returns the result of the start on so many nodes.
pub(crate) fn start(program: &Program, machine: &Machine, nodes: u32) -> Outcome {
    let most = (VISITS_MAX / program.steps.len().max(1)) as u32;
    start_from(program, machine, nodes, most.clamp(NODES_MIN, NODES_MAX))
}

/// Returns the same, with so many nodes simulated one by one.
fn start_from(program: &Program, machine: &Machine, nodes: u32, most: u32) -> Outcome {
    let visits = visits(program, machine);
    let (mut seconds, mut counts) = step_by_step(program, machine, &visits, nodes.min(most));
    if nodes > most {
        let (before, _) = step_by_step(program, machine, &visits, most / 2);
        seconds += (seconds - before) / f64::from(most - most / 2) * f64::from(nodes - most);
        // Too few nodes may not have kept the slowest server busy.
        seconds = seconds.max(storage_busy_seconds(program, machine, &visits) * f64::from(nodes));
        for count in [&mut counts.opens, &mut counts.lists, &mut counts.stats, &mut counts.bytes] {
            *count = *count / u64::from(most) * u64::from(nodes);
        }
    }
    Outcome { seconds, first_seconds: seconds, median_seconds: seconds, counts, ..Outcome::default() }
}

/// Returns how long one node keeps the slowest part of the shared file system busy.
fn storage_busy_seconds(program: &Program, machine: &Machine, visits: &[Visit]) -> f64 {
    let system = &machine.file_system;
    let mut servers = vec![0; system.servers as usize];
    for (step, visit) in program.steps.iter().zip(visits) {
        servers[server_of(&step.path, system) as usize] += visit.count * visit.operation.service_ns(system);
    }
    let bytes: u64 = visits.iter().map(|visit| visit.bytes).sum();
    let slowest = servers.into_iter().max().unwrap_or(0) as f64;
    slowest.max(bytes as f64 / system.total_gb) / 1e9
}

fn visits(program: &Program, machine: &Machine) -> Vec<Visit> {
    let mut read = HashSet::new();
    let visit = |step: &Step| {
        let operation = step.operation();
        let bytes = if operation == Operation::Open && read.insert(step.path.clone()) { step.size } else { 0 };
        let count =
            if is_cached(step.kind, &machine.file_system) { step.is_first.into() } else { machine.processes.into() };
        Visit { operation, count, bytes }
    };
    program.steps.iter().map(visit).collect()
}

/// Returns whether a node's kernel answers all of its processes after the first.
fn is_cached(kind: Kind, system: &FileSystem) -> bool {
    match kind {
        Kind::Stat | Kind::List => system.keeps_entries,
        Kind::Absent => system.keeps_absent,
        Kind::Open | Kind::Load => !system.opens_reach_server,
    }
}

fn step_by_step(program: &Program, machine: &Machine, visits: &[Visit], nodes: u32) -> (f64, Counts) {
    let mut storage = Storage::new(&machine.file_system);
    let mut heap: BinaryHeap<Reverse<(u64, u32, usize)>> = (0..nodes).map(|node| Reverse((0, node, 0))).collect();
    let (lookup_ns, mut end) = ((machine.network.node.lookup_us * 1e3) as u64, 0);
    while let Some(Reverse((mut at_ns, node, mut number))) = heap.pop() {
        // What its kernel answers delays no other node.
        while let Some(visit) = visits.get(number).filter(|visit| visit.count == 0 && visit.bytes == 0) {
            debug_assert_eq!(visit.bytes, 0);
            at_ns += program.steps[number].before_ns + lookup_ns;
            number += 1;
        }
        let (Some(step), Some(visit)) = (program.steps.get(number), visits.get(number)) else {
            end = end.max(at_ns + program.after_ns);
            continue;
        };
        let mut done = at_ns + step.before_ns + lookup_ns;
        if visit.count > 0 {
            done = storage.operate(done, &step.path, visit.operation, visit.count);
        }
        if visit.bytes > 0 {
            done = storage.read(done, visit.bytes);
        }
        heap.push(Reverse((done, node, number + 1)));
    }
    (end as f64 / 1e9, storage.counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Network;
    use crate::trace::Trace;

    fn machine(system: FileSystem, processes: u32) -> Machine {
        let mut network = Network::default();
        network.node.lookup_us = 0.0;
        Machine { network, file_system: system, processes, seed: 1 }
    }

    #[test]
    fn many_nodes_follow_from_few() {
        let trace = Trace::generate("pynamic:30:20:3:5").unwrap().unwrap();
        let program = Program::new(&trace).unwrap();
        for (servers, keeps_entries) in [(1, false), (4, false), (4, true), (16, true)] {
            let system = FileSystem { servers, keeps_entries, ..FileSystem::default() };
            let machine = machine(system, 4);
            for nodes in [128, 500, 2000] {
                let found = start_from(&program, &machine, nodes, 64);
                let expected = start_from(&program, &machine, nodes, nodes);
                let ratio = found.seconds / expected.seconds;
                assert!((0.85..1.15).contains(&ratio), "{servers} servers, {nodes} nodes: {found:?}, {expected:?}");
                assert_eq!(found.counts, expected.counts);
            }
        }
    }

    #[test]
    fn kernels_cache_what_they_may() {
        let system = FileSystem { latency_us: 100.0, stat_us: 10.0, ..FileSystem::default() };
        let program = Program::new(&Trace::parse("1 stat - /sw/a\n0 stat - /sw/a\n0 absent - /sw/b\n2 end").unwrap());
        let program = program.unwrap();
        let one = start(&program, &machine(system.clone(), 1), 1);
        assert!((one.seconds - 3.000_22).abs() < 1e-9, "{}", one.seconds);
        assert_eq!(one.counts.stats, 2);
        assert_eq!(start(&program, &machine(system, 8), 10).counts.stats, 10 * (1 + 8));
    }
}
