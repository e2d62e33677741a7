//! A start with Headwater: nodes and their drivers over the model, event by event.
//!
//! An arrival, an answer of the shared file system or a process's look-up is one event. Its effects on a node
//! are executed at once, at the time when the daemon's processor is free; a queue is represented by the time
//! at which it is empty.
//!
//! If all nodes are simulated and share nothing but the readers, two threads have a half of them each. They
//! proceed in windows. Each announces when the first of its packets can reach the other, from its next
//! events, their work and the network's latency; no thread proceeds beyond that. The order of events is the
//! same for any number of threads. Each thread has its own copy of the program's paths: counting shared
//! references would cost more than all else.

mod drive;
mod process;
mod read;
mod session;
mod shard;
mod site;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub(crate) use self::session::World;

use self::shard::Shard;
use self::site::Mail;
use crate::outcome::Part;
use crate::program::Program;
use crate::{Outcome, Progress};

/// Turns of a loop after which a waiting thread yields.
const SPINS_MAX: u32 = 1 << 8;
/// Windows between two reports of progress.
const PROGRESS_WINDOWS: u64 = 1 << 10;

/// The threads' common state.
struct Meeting {
    arrived: AtomicU32,
    round: AtomicU32,
    /// Each shard's report, in even rounds and in odd ones: a quick shard may write the next already.
    reports: [Vec<Report>; 2],
}

/// A shard's report.
#[derive(Default)]
struct Report {
    /// The time before which none of its effects reaches another shard.
    reaches_ns: AtomicU64,
    /// Processes that have started.
    ended: AtomicU32,
    /// Messages from other shards.
    mail: Mutex<Mail>,
}

impl World<'_> {
    /// Processes all events until all processes have started.
    pub(crate) fn run(&self, progress: &mut Progress<'_>) -> Outcome {
        let ends = self.firsts[1..].iter().copied().chain([self.crowd.len()]);
        let ranges: Vec<(u32, u32)> = self.firsts.iter().copied().zip(ends).collect();
        let meeting = Meeting::new(ranges.len());
        let copies: Vec<Program> = ranges[1..].iter().map(|_| self.program.copied()).collect();
        let mut outcomes = std::thread::scope(|scope| {
            let meeting = &meeting;
            let others: Vec<_> = (1..)
                .zip(ranges[1..].iter().zip(&copies))
                .map(|(number, (&range, program))| {
                    scope.spawn(move || self.run_shard(Shard::new(self, program, number, range), meeting, &mut |_| {}))
                })
                .collect();
            let mut outcomes = vec![self.run_shard(Shard::new(self, self.program, 0, ranges[0]), meeting, progress)];
            outcomes.extend(others.into_iter().map(|thread| thread.join().expect("a shard does not panic")));
            outcomes
        });
        let first = outcomes.swap_remove(0);
        outcomes.into_iter().fold(first, Part::join).outcome()
    }

    fn run_shard(&self, mut shard: Shard<'_>, meeting: &Meeting, progress: &mut Progress<'_>) -> Part {
        let number = shard.number as usize;
        shard.begin();
        for round in 0u64.. {
            let reports = &meeting.reports[round as usize % 2];
            let mut reaches_ns = shard.reaches_ns();
            for (to, mail) in shard.outgoing.iter_mut().enumerate().filter(|(_, mail)| !mail.is_empty()) {
                // Its effects reach others no sooner than itself.
                let arrival = mail.iter().map(|(moment, _)| moment.at_ns).min().unwrap_or(u64::MAX);
                reaches_ns = reaches_ns.min(arrival.saturating_add(shard.costs.reaction));
                reports[to].mail.lock().expect("no thread panics with the lock").append(mail);
            }
            reports[number].reaches_ns.store(reaches_ns, Ordering::Relaxed);
            reports[number].ended.store(shard.ended, Ordering::Relaxed);
            meeting.wait();
            for (moment, packet) in reports[number].mail.lock().expect("no thread panics with the lock").drain(..) {
                shard.take_from_afar(moment, packet);
            }
            if reports.iter().map(|reports| reports.ended.load(Ordering::Relaxed)).sum::<u32>() == self.crowd.len() {
                break;
            }
            let before_ns =
                reports.iter().map(|reports| reports.reaches_ns.load(Ordering::Relaxed)).min().unwrap_or(u64::MAX);
            assert!(before_ns < u64::MAX, "processes that wait are answered");
            shard.run_until(before_ns);
            if round.is_multiple_of(PROGRESS_WINDOWS) {
                progress(shard.done());
            }
        }
        shard.finish()
    }
}

impl Meeting {
    fn new(shards: usize) -> Meeting {
        let reports = || (0..shards).map(|_| Report::default()).collect();
        Meeting { arrived: AtomicU32::new(0), round: AtomicU32::new(0), reports: [reports(), reports()] }
    }

    /// Waits until all shards are here. Windows are short: sleeping would take longer.
    fn wait(&self) {
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) as usize + 1 == self.reports[0].len() {
            self.arrived.store(0, Ordering::Relaxed);
            self.round.store(round.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut spins = 0;
        while self.round.load(Ordering::Acquire) == round {
            spins += 1;
            if spins > SPINS_MAX { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crowd::Crowd;
    use crate::{FileSystem, Machine, Network, Trace};
    use headwater_topology::{Forest, Shape};

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
