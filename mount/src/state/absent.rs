//! Names that the kernel knows to be absent, by answers that it may still use.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use headwater_abi::Path;
use headwater_fuse::NodeId;

/// Names that are remembered.
const NAMES_MAX: usize = 1 << 16;

/// The names that were absent within the time for which the kernel uses that.
#[derive(Debug)]
pub(crate) struct AbsentNames {
    ttl: Duration,
    /// When it was answered, the directory and the path, in the order of answers.
    answered: Mutex<VecDeque<(Instant, NodeId, Path)>>,
}

impl AbsentNames {
    /// Makes the memory of a mount whose answers the kernel uses for `ttl`.
    pub(crate) fn new(ttl: Duration) -> AbsentNames {
        AbsentNames { ttl, answered: Mutex::default() }
    }

    /// Notes an answer that is about to be given. Returns false if there are too many: then the kernel must not use it
    /// again.
    pub(crate) fn note(&self, directory: NodeId, path: &Path, now: Instant) -> bool {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let has_ended = |at: &Instant| now.saturating_duration_since(*at) > self.ttl;
        while answered.pop_front_if(|(at, ..)| has_ended(at)).is_some() {}
        let is_noted = answered.len() < NAMES_MAX;
        if is_noted {
            answered.push_back((now, directory, path.clone()));
        }
        is_noted
    }

    /// Returns the names below a path, each with its directory's node.
    pub(crate) fn below(&self, path: &Path) -> Vec<(NodeId, Path)> {
        let answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let below = answered.iter().filter(|(_, _, absent)| absent.is_within(path) && absent != path);
        below.map(|(_, directory, absent)| (*directory, absent.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Path {
        Path::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn names_are_found_below_a_path_while_the_kernel_uses_the_answer() {
        let ttl = Duration::from_secs(5);
        let absent = AbsentNames::new(ttl);
        let start = Instant::now();
        for (after, directory, text) in [(0, 1, "/sw/a/x"), (1, 2, "/sw/a/b/y"), (1, 3, "/sw/ab"), (2, 1, "/sw/a")] {
            assert!(absent.note(NodeId(directory), &path(text), start + Duration::from_secs(after)));
        }
        assert_eq!(absent.below(&path("/sw/a")), [(NodeId(1), path("/sw/a/x")), (NodeId(2), path("/sw/a/b/y"))]);
        absent.note(NodeId(9), &path("/else"), start + ttl + Duration::from_millis(500));
        assert_eq!(absent.below(&path("/sw/a")), [(NodeId(2), path("/sw/a/b/y"))]);
    }

    #[test]
    fn the_memory_is_bounded() {
        let absent = AbsentNames::new(Duration::from_secs(5));
        let now = Instant::now();
        let noted = (0..NAMES_MAX + 9).filter(|number| absent.note(NodeId(1), &path(&format!("/{number}")), now));
        assert_eq!(noted.count(), NAMES_MAX);
        assert!(absent.note(NodeId(1), &path("/later"), now + Duration::from_secs(6)));
    }
}
