//! Evicted content that still stands in the mirror.
//!
//! A process may have read in the table that a file is resident just before that was taken back, and
//! open the copy just after; a loader has no second try. So a copy stays for a while after the table
//! has stopped naming it.

use std::collections::BTreeMap;

use headwater_abi::Path;
use headwater_proto::Time;

/// How long a process may take from the table to its copy, in milliseconds.
const GRACE_MS: Time = 5_000;

/// Copies that the table names no more, and when they may go.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    due: BTreeMap<Path, Time>,
}

impl Hidden {
    /// From `now` on the table does not name the copy of `path`.
    pub(super) fn add(&mut self, path: &Path, now: Time) {
        self.due.insert(path.clone(), now + GRACE_MS);
    }

    pub(super) fn contains(&self, path: &Path) -> bool {
        self.due.contains_key(path)
    }

    /// Something else takes the copy's place; true if there was one.
    pub(super) fn remove(&mut self, path: &Path) -> bool {
        self.due.remove(path).is_some()
    }

    /// When the next one may go.
    pub(super) fn next(&self) -> Option<Time> {
        self.due.values().min().copied()
    }

    /// Takes out those that may go by `now`.
    pub(super) fn take_due(&mut self, now: Time) -> Vec<Path> {
        self.due.extract_if(.., |_, due| *due <= now).map(|(path, _)| path).collect()
    }
}
