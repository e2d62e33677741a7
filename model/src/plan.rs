//! The shape of the overlay with the quickest start.
//!
//! Each trial is a simulation of the whole trace, so as many run at once as there are cores; the result is
//! the same for any number of them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use headwater_topology::{Branching, Forest, Shape, TREES_MAX};

use crate::{Detail, Machine, Outcome, Progress, Trace, TraceError, with_headwater};

/// Starts that take up to this much longer than the best count as equal.
const ALIKE: f64 = 1.02;
/// Numbers of readers, servers and groups that are tried; those behind the first [`SOURCES_ALWAYS`] only
/// while each is better than all before.
const SOURCES: [u32; 7] = [1, 2, 8, 16, 50, 100, 200];
const SOURCES_ALWAYS: usize = 5;
/// The same for trees.
const TREES: [u32; 6] = [2, 4, 8, 16, 32, 64];
const TREES_ALWAYS: usize = 3;
const FAN_OUTS: [Branching; 5] =
    [Branching::KAry(2), Branching::KAry(4), Branching::KAry(8), Branching::KAry(16), Branching::Binomial];

/// A shape and its result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// The shape.
    pub shape: Shape,
    /// Nodes that are the readers and run no program, beside those that do.
    pub servers: u32,
    /// The start with it.
    pub outcome: Outcome,
}

/// All trials, and the best one.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Striped trees by their number, with as many readers as by default.
    pub by_trees: Vec<Trial>,
    /// Striped trees by the number of readers, with as many trees as by default.
    pub by_readers: Vec<Trial>,
    /// The same by the number of dedicated servers, which read instead of nodes that run the program.
    pub by_servers: Vec<Trial>,
    /// Groups that each read for themselves, by their number.
    pub by_groups: Vec<Trial>,
    /// One tree, by its fan-out.
    pub by_fan_out: Vec<Trial>,
    /// The shape to use: of those that are as quick as the quickest, one without servers, with the fewest
    /// requests to the shared file system, with the fewest readers, nearest to the default.
    pub best: Trial,
}

/// A trial to be made: a shape, and the number of servers.
type Attempt = (Shape, u32);

/// Tries shapes on so many nodes; if these are many, on a sample that represents all. A curve without further
/// gain is not continued.
///
/// # Errors
/// The trace contradicts itself.
pub fn plan(trace: &Trace, machine: &Machine, nodes: u32, progress: &mut Progress<'_>) -> Result<Plan, TraceError> {
    let (trees, readers) = match Shape::default_of(nodes) {
        Shape::Striped { trees, readers } => (trees, readers),
        _ => (2, 1),
    };
    let branching = Branching::KAry(8);
    let curves: [(Vec<Attempt>, usize); 5] = [
        (TREES.map(|trees| (Shape::Striped { trees, readers }, 0)).to_vec(), TREES_ALWAYS),
        (SOURCES.map(|readers| (Shape::Striped { trees, readers }, 0)).to_vec(), SOURCES_ALWAYS),
        (SOURCES.map(|servers| (Shape::Striped { trees, readers: servers }, servers)).to_vec(), SOURCES_ALWAYS),
        (SOURCES.map(|groups| (Shape::Partitioned { groups, branching }, 0)).to_vec(), SOURCES_ALWAYS),
        (FAN_OUTS.map(|branching| (Shape::Single(branching), 0)).to_vec(), FAN_OUTS.len()),
    ];
    let fitting = |attempts: &[Attempt]| attempts.iter().copied().filter(|&a| fits(a, nodes)).collect::<Vec<_>>();
    let always = curves.each_ref().map(|(attempts, count)| fitting(&attempts[..*count]));
    let mut tried = try_curves(trace, machine, nodes, &always, progress)?;
    let further: Vec<Vec<Attempt>> = curves
        .iter()
        .zip(&tried)
        .map(|((attempts, count), trials)| if is_growing(trials) { fitting(&attempts[*count..]) } else { Vec::new() })
        .collect();
    for (curve, more) in tried.iter_mut().zip(try_curves(trace, machine, nodes, &further, progress)?) {
        curve.extend(more);
    }
    let best = best(tried.iter().flatten(), Shape::default_of(nodes));
    let mut tried = tried.into_iter();
    let mut next = || tried.next().unwrap_or_default();
    Ok(Plan { by_trees: next(), by_readers: next(), by_servers: next(), by_groups: next(), by_fan_out: next(), best })
}

/// Makes each attempt of some curves; one that is in two of them, once.
fn try_curves(
    trace: &Trace,
    machine: &Machine,
    nodes: u32,
    curves: &[Vec<Attempt>],
    progress: &mut Progress<'_>,
) -> Result<Vec<Vec<Trial>>, TraceError> {
    let mut attempts: Vec<Attempt> = Vec::new();
    for &attempt in curves.iter().flatten() {
        if !attempts.contains(&attempt) {
            attempts.push(attempt);
        }
    }
    let count = attempts.len() as f64;
    let trials = try_all(trace, machine, nodes, &attempts, &mut |sum| progress(sum / count))?;
    let of = |attempt: &Attempt| trials.iter().copied().find(|trial| (trial.shape, trial.servers) == *attempt);
    Ok(curves.iter().map(|curve| curve.iter().filter_map(of).collect()).collect())
}

/// Makes each attempt and returns the trials in order. Progress is the number of complete attempts, plus the
/// parts of the others.
fn try_all(
    trace: &Trace,
    machine: &Machine,
    nodes: u32,
    attempts: &[Attempt],
    progress: &mut Progress<'_>,
) -> Result<Vec<Trial>, TraceError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(attempts.len());
    let next = AtomicUsize::new(0);
    let mut trials: Vec<Option<Result<Trial, TraceError>>> = vec![None; attempts.len()];
    let mut parts = vec![0.0; attempts.len()];
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..threads {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&attempt) = attempts.get(number) else { break };
                    // The receiver outlives the threads that send.
                    let mut part = |part: f64| drop(sender.send((number, Err(part))));
                    let trial = try_one(trace, machine, nodes, attempt, &mut part);
                    let _ = sender.send((number, Ok(trial)));
                }
            });
        }
        drop(sender);
        for (number, report) in receiver {
            match report {
                Err(part) => parts[number] = part,
                Ok(trial) => (parts[number], trials[number]) = (1.0, Some(trial)),
            }
            progress(parts.iter().sum());
        }
    });
    trials.into_iter().map(|trial| trial.expect("every attempt is made")).collect()
}

fn try_one(
    trace: &Trace,
    machine: &Machine,
    nodes: u32,
    (shape, servers): Attempt,
    progress: &mut Progress<'_>,
) -> Result<Trial, TraceError> {
    let ranks = nodes.saturating_add(servers);
    let forest = Forest::new(ranks, servers, shape);
    let outcome = with_headwater(trace, machine, forest, Detail::for_nodes(ranks), progress)?;
    Ok(Trial { shape, servers, outcome })
}

/// Returns whether a curve's last trial is better than all before.
fn is_growing(trials: &[Trial]) -> bool {
    let Some((last, before)) = trials.split_last() else { return false };
    before.iter().all(|trial| last.outcome.seconds * ALIKE < trial.outcome.seconds)
}

/// Returns whether a shape is possible on so many nodes.
fn fits((shape, servers): Attempt, nodes: u32) -> bool {
    match shape {
        Shape::Striped { trees, .. } if servers > 0 => trees.min(TREES_MAX) <= nodes && servers <= nodes / 2,
        Shape::Striped { trees, readers } => {
            trees.min(TREES_MAX) + readers <= nodes && (readers <= nodes / 2 || readers == 1)
        }
        Shape::Partitioned { groups, .. } => groups > 1 && groups <= nodes / 2,
        Shape::Single(_) => true,
    }
}

fn best<'a>(trials: impl Iterator<Item = &'a Trial> + Clone, default: Shape) -> Trial {
    let soonest = trials.clone().map(|trial| trial.outcome.seconds).fold(f64::INFINITY, f64::min);
    let alike = trials.filter(|trial| trial.outcome.seconds <= soonest * ALIKE);
    let order =
        |trial: &&Trial| (trial.servers, trial.outcome.counts.requests(), trial.shape != default, readers(trial.shape));
    *alike.min_by_key(order).expect("one tree fits every number of nodes")
}

/// Returns how many ranks read in a shape.
pub fn readers(shape: Shape) -> u32 {
    match shape {
        Shape::Single(_) => 1,
        Shape::Striped { readers, .. } => readers,
        Shape::Partitioned { groups, .. } => groups,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Counts;

    fn striped(trees: u32, readers: u32) -> Shape {
        Shape::Striped { trees, readers }
    }

    fn trial(shape: Shape, seconds: f64, opens: u64) -> Trial {
        let counts = Counts { opens, ..Counts::default() };
        Trial { shape, servers: 0, outcome: Outcome { seconds, counts, ..Outcome::default() } }
    }

    #[test]
    fn among_equals_the_least_requests_and_the_default_win() {
        let groups = Shape::Partitioned { groups: 4, branching: Branching::KAry(8) };
        let trials = [
            trial(striped(8, 2), 1.01, 10),
            trial(striped(8, 1), 1.01, 10),
            trial(groups, 1.0, 40),
            trial(Shape::Single(Branching::KAry(2)), 2.0, 10),
        ];
        assert_eq!(best(trials.iter(), striped(8, 2)).shape, striped(8, 2));
        assert_eq!(best(trials.iter(), striped(4, 2)).shape, striped(8, 1));
        assert_eq!(best(trials[2..].iter(), striped(4, 2)).shape, groups);
        // Servers are nodes that run no program: they have to be worth it.
        for (seconds, servers) in [(0.99, 0), (0.9, 2)] {
            let served = Trial { servers: 2, ..trial(striped(8, 2), seconds, 1) };
            assert_eq!(best(trials.iter().chain([&served]), striped(8, 2)).servers, servers, "{seconds}");
        }
    }

    #[test]
    fn what_gains_nothing_grows_no_further() {
        let curve = |seconds: &[f64]| seconds.iter().map(|&s| trial(striped(8, 2), s, 1)).collect::<Vec<_>>();
        for (seconds, expected) in
            [(&[3.0, 2.0, 1.0][..], true), (&[3.0, 1.01, 1.0], false), (&[1.0, 2.0], false), (&[], false)]
        {
            assert_eq!(is_growing(&curve(seconds)), expected, "{seconds:?}");
        }
    }

    #[test]
    fn trials_are_in_order() {
        let trace = Trace::generate("pynamic:2:1:1:1").unwrap().unwrap();
        let machine = Machine {
            network: crate::Network::default(),
            file_system: crate::FileSystem::default(),
            processes: 2,
            seed: 1,
        };
        let mut last = 0.0;
        let plan = plan(&trace, &machine, 20, &mut |part| last = part).unwrap();
        assert!(last > 0.5 && last <= 1.0, "{last}");
        let servers: Vec<u32> = plan.by_servers.iter().map(|trial| trial.servers).collect();
        assert_eq!(servers, [1, 2, 8]);
        for trial in plan.by_servers.iter().chain(&plan.by_readers).chain(&plan.by_fan_out) {
            let again = try_one(&trace, &machine, 20, (trial.shape, trial.servers), &mut |_| {}).unwrap();
            assert_eq!(*trial, again);
        }
    }

    #[test]
    fn shapes_that_would_be_cut_are_not_tried() {
        assert!(fits((striped(8, 2), 0), 16) && !fits((striped(8, 9), 0), 16));
        assert!(!fits((striped(8, 2), 0), 9) && fits((striped(8, 2), 2), 9) && !fits((striped(8, 5), 5), 9));
        assert!(!fits((Shape::Partitioned { groups: 4, branching: Branching::KAry(8) }, 0), 7));
    }
}
