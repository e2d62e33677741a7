//! The parts of the time: each moment belongs to the program that was executed last of those that run.
//!
//! A process that starts another one usually waits for it, so the last one is what the start waits for.

use std::collections::BTreeSet;

use headwater_report::start::Phase;

use super::imports::Module;
use super::run::Run;

/// The phases, in their order.
const NAMES: [&str; 3] = ["loader", "imports", "own code"];
const LOADER: usize = 0;
const IMPORTS: usize = 1;
const OWN_CODE: usize = 2;

/// Returns the phases of a run; `modules` are those of each image.
pub fn phases(run: &Run, modules: &[Vec<Module>]) -> Vec<Phase> {
    let mut changes: Vec<(u64, Change)> = Vec::new();
    for (number, image) in run.images.iter().enumerate() {
        let loaded_ns = image.loaded_ns.map_or(image.start_ns, |at| at.clamp(image.start_ns, image.end_ns));
        changes.push((image.start_ns, Change::Phase(number, Some(LOADER))));
        changes.push((loaded_ns, Change::Phase(number, Some(OWN_CODE))));
        for module in &modules[number] {
            let from_ns = module.start_ns.clamp(loaded_ns, image.end_ns);
            changes.push((from_ns, Change::Phase(number, Some(IMPORTS))));
            changes.push((module.end_ns.clamp(from_ns, image.end_ns), Change::Phase(number, Some(OWN_CODE))));
        }
        changes.push((image.end_ns, Change::Phase(number, None)));
    }
    // Changes of one moment stay in the order in which they were added.
    changes.sort_by_key(|(at_ns, _)| *at_ns);
    let mut lengths_ns = [0; NAMES.len()];
    let mut phase_of = vec![OWN_CODE; run.images.len()];
    let mut running = BTreeSet::new();
    let mut before_ns = 0;
    for (at_ns, Change::Phase(number, phase)) in changes {
        let current = running.last().map_or(OWN_CODE, |&last: &usize| phase_of[last]);
        lengths_ns[current] += at_ns - before_ns;
        before_ns = at_ns;
        match phase {
            Some(phase) => {
                phase_of[number] = phase;
                running.insert(number);
            }
            None => drop(running.remove(&number)),
        }
    }
    lengths_ns[OWN_CODE] += run.end_ns.saturating_sub(before_ns);
    let all = NAMES.iter().zip(lengths_ns).filter(|(_, length_ns)| *length_ns > 0);
    all.map(|(name, length_ns)| Phase { name: (*name).to_owned(), length_ns }).collect()
}

enum Change {
    /// An image is in a phase; `None`: it has ended.
    Phase(usize, Option<usize>),
}

#[cfg(test)]
mod tests {
    use super::super::run::Image;
    use super::*;

    #[test]
    fn each_moment_has_one_phase() {
        let shell = Image { start_ns: 10, loaded_ns: Some(30), end_ns: 200, ..Image::default() };
        let child = Image { start_ns: 50, loaded_ns: Some(90), end_ns: 100, ..Image::default() };
        let run = Run { images: vec![shell, child], end_ns: 210, ..Run::default() };
        let lengths: Vec<(String, u64)> =
            phases(&run, &[Vec::new(), Vec::new()]).into_iter().map(|phase| (phase.name, phase.length_ns)).collect();
        assert_eq!(lengths, [("loader".to_owned(), 60), ("own code".to_owned(), 150)]);
    }
}
