//! A start with Headwater: nodes and their drivers over the model, event by event.
//!
//! An arrival, an answer of the shared file system or a process's look-up is one event. What it makes a
//! node do is performed at once, at the moment when the daemon's processor has come to it; queues are
//! moments at which something is free again.
//!
//! Where all nodes are simulated and share nothing but the readers, two threads have a half of them each.
//! They go from window to window of the network's latency: what one half sends in a window reaches the
//! other in a later one. The order of events is the same for any number of threads.

mod drive;
mod process;
mod read;
mod shard;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use headwater_topology::Forest;

use crate::crowd::Crowd;
use crate::parameters::us;
use crate::program::Program;
use crate::queue::Moment;
use crate::{Machine, Outcome, Progress};
use shard::{Packet, Shard};

/// Nodes below which one thread does it.
const HALVED_MIN: u32 = 512;
/// The shortest window where nobody has to be met.
const WINDOW_NS_MIN: u64 = 1000;
/// Windows between two reports of progress.
const PROGRESS_WINDOWS: u64 = 1 << 10;

/// What all parts of a session go by.
#[derive(Debug)]
pub(crate) struct World<'a> {
    pub(crate) program: &'a Program,
    pub(crate) machine: &'a Machine,
    pub(crate) forest: Forest,
    pub(crate) crowd: Crowd,
    /// The first site of each shard.
    firsts: Vec<u32>,
}

/// Packets with the moments when they arrive.
pub(crate) type Mail = Vec<(Moment, Packet)>;

/// Where shards meet.
struct Meeting {
    shards: u32,
    arrived: AtomicU32,
    round: AtomicU32,
    /// By shard: the time of its next event, processes that have started, and what comes in.
    next_ns: Vec<AtomicU64>,
    ended: Vec<AtomicU32>,
    mail: Vec<Mutex<Mail>>,
}

impl<'a> World<'a> {
    pub(crate) fn new(program: &'a Program, machine: &'a Machine, forest: Forest, crowd: Crowd) -> World<'a> {
        let half = crowd.len() / 2;
        let reads_early = forest.tree_ids().all(|tree| forest.root(tree).0 < half);
        let network = &machine.network;
        let shares_nothing =
            network.tiers.is_empty() && !network.node.one_machine && us(network.latency_us) >= WINDOW_NS_MIN;
        let is_halved = crowd.is_all() && crowd.len() >= HALVED_MIN && reads_early && shares_nothing;
        let firsts = if is_halved { vec![0, half] } else { vec![0] };
        World { program, machine, forest, crowd, firsts }
    }

    /// The same, by one thread.
    #[cfg(test)]
    pub(crate) fn in_one(self) -> World<'a> {
        World { firsts: vec![0], ..self }
    }

    /// Lets everything happen until all processes have started.
    pub(crate) fn run(&self, progress: &mut Progress<'_>) -> Outcome {
        let ends = self.firsts[1..].iter().copied().chain([self.crowd.len()]);
        let ranges: Vec<(u32, u32)> = self.firsts.iter().copied().zip(ends).collect();
        let meeting = Meeting::new(ranges.len() as u32);
        let mut outcomes = std::thread::scope(|scope| {
            let mut rest = ranges.iter().zip(0..);
            let (&first, _) = rest.next().expect("there is a shard");
            let others: Vec<_> = rest
                .map(|(&range, number)| {
                    let meeting = &meeting;
                    scope.spawn(move || self.run_shard(number, range, meeting, &mut |_| {}))
                })
                .collect();
            let mut outcomes = vec![self.run_shard(0, first, &meeting, progress)];
            outcomes.extend(others.into_iter().map(|thread| thread.join().expect("a shard does not panic")));
            outcomes
        });
        let first = outcomes.swap_remove(0);
        outcomes.into_iter().fold(first, Part::join).outcome()
    }

    /// The shard of a site.
    pub(crate) fn shard_of(&self, site: u32) -> u32 {
        self.firsts.partition_point(|&first| first <= site) as u32 - 1
    }

    fn run_shard(&self, number: u32, range: (u32, u32), meeting: &Meeting, progress: &mut Progress<'_>) -> Part {
        let mut shard = Shard::new(self, number, range);
        let latency_ns = us(self.machine.network.latency_us);
        let window_ns = if meeting.shards == 1 { latency_ns.max(WINDOW_NS_MIN) } else { latency_ns };
        shard.begin();
        let mut windows = 0u64;
        loop {
            for (to, mail) in shard.outgoing.iter_mut().enumerate().filter(|(_, mail)| !mail.is_empty()) {
                meeting.mail[to].lock().expect("nobody panics with it").append(mail);
            }
            meeting.wait();
            for (moment, packet) in meeting.mail[number as usize].lock().expect("nobody panics with it").drain(..) {
                shard.take(moment, packet);
            }
            meeting.next_ns[number as usize].store(shard.next_ns(), Ordering::Relaxed);
            meeting.ended[number as usize].store(shard.ended, Ordering::Relaxed);
            meeting.wait();
            let ended: u32 = meeting.ended.iter().map(|ended| ended.load(Ordering::Relaxed)).sum();
            if ended == self.crowd.len() {
                return shard.finish();
            }
            let next_ns = meeting.next_ns.iter().map(|next| next.load(Ordering::Relaxed)).min();
            let next_ns = next_ns.filter(|&next| next < u64::MAX).expect("processes that wait are answered");
            shard.run_until(next_ns + window_ns);
            windows += 1;
            if windows.is_multiple_of(PROGRESS_WINDOWS) {
                progress(shard.done());
            }
        }
    }
}

impl Meeting {
    fn new(shards: u32) -> Meeting {
        Meeting {
            shards,
            arrived: AtomicU32::new(0),
            round: AtomicU32::new(0),
            next_ns: (0..shards).map(|_| AtomicU64::new(0)).collect(),
            ended: (0..shards).map(|_| AtomicU32::new(0)).collect(),
            mail: (0..shards).map(|_| Mutex::new(Vec::new())).collect(),
        }
    }

    /// Waits until all shards are here. Windows are short: sleeping would take longer than they do.
    fn wait(&self) {
        if self.shards == 1 {
            return;
        }
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.shards {
            self.arrived.store(0, Ordering::Relaxed);
            self.round.store(round.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut spins = 0u32;
        while self.round.load(Ordering::Acquire) == round {
            spins += 1;
            if spins.is_multiple_of(1 << 12) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

/// What one shard has found.
pub(crate) struct Part {
    pub(crate) ends_ns: Vec<u64>,
    pub(crate) outcome: Outcome,
}

impl Part {
    fn join(mut self, other: Part) -> Part {
        self.ends_ns.extend(other.ends_ns);
        let (a, b) = (&mut self.outcome, other.outcome);
        a.messages += b.messages;
        a.fallbacks += b.fallbacks;
        a.events += b.events;
        a.simulated += b.simulated;
        a.counts.opens += b.counts.opens;
        a.counts.lists += b.counts.lists;
        a.counts.stats += b.counts.stats;
        a.counts.bytes += b.counts.bytes;
        self
    }

    fn outcome(mut self) -> Outcome {
        self.ends_ns.sort_unstable();
        let seconds = |ns: Option<&u64>| ns.map_or(0.0, |&ns| ns as f64 / 1e9);
        Outcome {
            seconds: seconds(self.ends_ns.last()),
            first_seconds: seconds(self.ends_ns.first()),
            median_seconds: seconds(self.ends_ns.get(self.ends_ns.len() / 2)),
            ..self.outcome
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileSystem, Network, Trace};
    use headwater_topology::Shape;

    #[test]
    fn threads_change_nothing() {
        let trace = Trace::generate("pynamic:6:4:2:1").unwrap().unwrap();
        let program = Program::new(&trace).unwrap();
        let machine =
            Machine { network: Network::default(), file_system: FileSystem::default(), processes: 2, seed: 3 };
        let forest = Forest::new(600, 0, Shape::default_of(600));
        let world = || World::new(&program, &machine, forest, Crowd::all(600));
        assert_eq!(world().firsts, [0, 300]);
        let (two, one) = (world().run(&mut |_| {}), world().in_one().run(&mut |_| {}));
        assert_eq!(two, one);
        assert_eq!(one.counts.opens, 10);
    }
}
