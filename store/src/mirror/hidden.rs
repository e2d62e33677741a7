//! Evicted content that still stands in the mirror.
//!
//! A process may have read in the table that a file is resident just before that was taken back, and
//! open the copy just after; a loader has no second try. So a copy stays for a while after the table
//! has stopped naming it. Where nobody but a mounted file system reads the store, that is not needed.

use std::collections::BTreeMap;

use headwater_abi::Path;
use headwater_proto::Time;

/// How long a process may take from the table to its copy, in milliseconds.
const GRACE_MS: Time = 5_000;

/// Copies that the table names no more.
#[derive(Debug)]
pub(super) struct Hidden {
    grace_ms: Time,
    /// When each may go, and the bytes that are free then.
    due: BTreeMap<Path, (Time, u64)>,
    bytes: u64,
}

impl Default for Hidden {
    fn default() -> Hidden {
        Hidden { grace_ms: GRACE_MS, due: BTreeMap::new(), bytes: 0 }
    }
}

impl Hidden {
    /// Whoever finds that a copy has gone looks the path up again: none need stay.
    pub(super) fn skip_grace(&mut self) {
        self.grace_ms = 0;
    }

    /// From `now` on the table does not name the copy of `path`, which takes so many bytes.
    pub(super) fn add(&mut self, path: &Path, now: Time, bytes: u64) {
        self.remove(path);
        self.due.insert(path.clone(), (now + self.grace_ms, bytes));
        self.bytes += bytes;
    }

    /// Bytes of all of them.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn contains(&self, path: &Path) -> bool {
        self.due.contains_key(path)
    }

    /// Something else takes the copy's place; true if there was one.
    pub(super) fn remove(&mut self, path: &Path) -> bool {
        let removed = self.due.remove(path);
        self.bytes -= removed.map_or(0, |(_, bytes)| bytes);
        removed.is_some()
    }

    /// When the next one may go.
    pub(super) fn next(&self) -> Option<Time> {
        self.due.values().map(|(due, _)| *due).min()
    }

    /// Takes out those that may go by `now`.
    pub(super) fn take_due(&mut self, now: Time) -> Vec<Path> {
        let taken: Vec<_> = self.due.extract_if(.., |_, (due, _)| *due <= now).collect();
        self.bytes -= taken.iter().map(|(_, (_, bytes))| bytes).sum::<u64>();
        taken.into_iter().map(|(path, _)| path).collect()
    }
}
