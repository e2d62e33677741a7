//! Which shape of the overlay starts a program soonest.

use headwater_topology::{Branching, Forest, Shape, TREES_MAX};

use crate::{Detail, Machine, Outcome, Progress, Trace, TraceError, with_headwater};

/// Starts that take this much longer than the best are as good.
const ALIKE: f64 = 1.02;
const READERS: [u32; 10] = [1, 2, 4, 8, 16, 32, 50, 64, 128, 256];
const TREES: [u32; 6] = [2, 4, 8, 16, 32, 64];
const FAN_OUTS: [Branching; 5] =
    [Branching::KAry(2), Branching::KAry(4), Branching::KAry(8), Branching::KAry(16), Branching::Binomial];

/// A shape and what came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// The shape.
    pub shape: Shape,
    /// The first ranks that run no program.
    pub servers: u32,
    /// The start with it.
    pub outcome: Outcome,
}

/// What was tried, and what is best.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Striped trees by their number, with as many readers as by default.
    pub by_trees: Vec<Trial>,
    /// Striped trees by the number of readers, with as many trees as by default.
    pub by_readers: Vec<Trial>,
    /// Groups that each read for themselves, by their number.
    pub by_groups: Vec<Trial>,
    /// One tree, by its fan-out.
    pub by_fan_out: Vec<Trial>,
    /// The shape to use: of those that are as quick as the quickest, the one that asks the shared file
    /// system for least, with the fewest readers, nearest to the default.
    pub best: Trial,
}

/// Tries shapes on so many nodes; where these are many, on a sample that stands for all.
///
/// # Errors
/// The trace contradicts itself.
pub fn plan(trace: &Trace, machine: &Machine, nodes: u32, progress: &mut Progress<'_>) -> Result<Plan, TraceError> {
    let (trees, readers) = match Shape::default_of(nodes) {
        Shape::Striped { trees, readers } => (trees, readers),
        _ => (2, 1),
    };
    let shapes = [
        TREES.iter().map(|&trees| Shape::Striped { trees, readers }).collect::<Vec<_>>(),
        READERS.iter().map(|&readers| Shape::Striped { trees, readers }).collect(),
        READERS.iter().map(|&groups| Shape::Partitioned { groups, branching: Branching::KAry(8) }).collect(),
        FAN_OUTS.iter().map(|&branching| Shape::Single(branching)).collect(),
    ];
    let count = shapes.iter().map(Vec::len).sum::<usize>() as f64;
    let mut done = 0.0;
    let mut tried: Vec<Vec<Trial>> = Vec::new();
    for shapes in shapes {
        let mut trials = Vec::new();
        for shape in shapes.into_iter().filter(|&shape| fits(shape, nodes)) {
            let forest = Forest::new(nodes, 0, shape);
            let mut part = |part: f64| progress((done + part) / count);
            let outcome = with_headwater(trace, machine, forest, Detail::for_nodes(nodes), &mut part)?;
            trials.push(Trial { shape, servers: 0, outcome });
            done += 1.0;
        }
        tried.push(trials);
    }
    let best = best(tried.iter().flatten(), Shape::default_of(nodes));
    let mut tried = tried.into_iter();
    let mut next = || tried.next().unwrap_or_default();
    Ok(Plan { by_trees: next(), by_readers: next(), by_groups: next(), by_fan_out: next(), best })
}

/// Whether a shape is what it says on so many nodes.
fn fits(shape: Shape, nodes: u32) -> bool {
    match shape {
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
    let order = |trial: &&Trial| (trial.outcome.counts.requests(), trial.shape != default, readers(trial.shape));
    *alike.min_by_key(order).expect("one tree fits every number of nodes")
}

/// How many ranks read in a shape.
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

    fn trial(shape: Shape, seconds: f64, opens: u64) -> Trial {
        let counts = Counts { opens, ..Counts::default() };
        Trial { shape, servers: 0, outcome: Outcome { seconds, counts, ..Outcome::default() } }
    }

    #[test]
    fn among_equals_the_least_requests_and_the_default_win() {
        let striped = |trees, readers| Shape::Striped { trees, readers };
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
    }

    #[test]
    fn shapes_that_would_be_cut_are_not_tried() {
        assert!(
            fits(Shape::Striped { trees: 8, readers: 2 }, 16) && !fits(Shape::Striped { trees: 8, readers: 9 }, 16)
        );
        assert!(!fits(Shape::Striped { trees: 8, readers: 2 }, 9));
        assert!(!fits(Shape::Partitioned { groups: 4, branching: Branching::KAry(8) }, 7));
    }
}
