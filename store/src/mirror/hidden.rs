//! Evicted content that is still in the mirror.
//!
//! A process may read in the table that a file is resident just before its eviction, and open the copy just after; a
//! loader does not try again. So a copy stays for a while after its record has changed. If only a mounted file system
//! reads the store, this is not needed.

use std::collections::BTreeMap;

use headwater_abi::Path;
use headwater_proto::Time;

/// How long a process may take from reading the table to opening the copy, in milliseconds.
const GRACE_MS: Time = 5_000;

/// Copies that the table no longer names.
#[derive(Debug)]
pub(super) struct Hidden {
    grace_ms: Time,
    /// When each copy may be removed, and the bytes that this frees.
    due: BTreeMap<Path, (Time, u64)>,
    bytes: u64,
}

impl Default for Hidden {
    fn default() -> Hidden {
        Hidden { grace_ms: GRACE_MS, due: BTreeMap::new(), bytes: 0 }
    }
}

impl Hidden {
    /// Removes copies at once, because the only reader looks up again if a copy is missing.
    pub(super) fn skip_grace(&mut self) {
        self.grace_ms = 0;
    }

    /// Adds the copy of `path`, which the table does not name from `now` on, with its bytes.
    pub(super) fn add(&mut self, path: &Path, now: Time, bytes: u64) {
        self.remove(path);
        self.due.insert(path.clone(), (now + self.grace_ms, bytes));
        self.bytes += bytes;
    }

    /// Returns the bytes of all of them.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn contains(&self, path: &Path) -> bool {
        self.due.contains_key(path)
    }

    /// Removes a copy that is being replaced. Returns true if there was one.
    pub(super) fn remove(&mut self, path: &Path) -> bool {
        let removed = self.due.remove(path);
        self.bytes -= removed.map_or(0, |(_, bytes)| bytes);
        removed.is_some()
    }

    /// Returns when the next copy may be removed.
    pub(super) fn next(&self) -> Option<Time> {
        self.due.values().map(|(due, _)| *due).min()
    }

    /// Takes the copies that may be removed by `now`.
    pub(super) fn take_due(&mut self, now: Time) -> Vec<Path> {
        let taken: Vec<_> = self.due.extract_if(.., |_, (due, _)| *due <= now).collect();
        self.bytes -= taken.iter().map(|(_, (_, bytes))| bytes).sum::<u64>();
        taken.into_iter().map(|(path, _)| path).collect()
    }
}
