//! Forgetting unused records, so that a node's memory is bounded however many paths are looked up.

use alloc::collections::BTreeSet;

use headwater_abi::Path;
use headwater_abi::wire::Fact;

use super::Node;
use crate::Output;
use crate::entry::Details;

/// Paths that one call examines, beside some for each record that was learnt since.
const STEPS: usize = 64;
const STEPS_FOR_LEARNT: usize = 2;
/// The latest records stay, so that a walk along a path can finish.
const RECENT: u32 = 64;
/// Queued paths that are forgotten already, beside as many as are known.
const GONE_MAX: usize = 64;

impl Node {
    /// Notes a fact about a path; `was_known` if something was known before.
    pub(super) fn note_forgettable(&mut self, path: &Path, was_known: bool) {
        let limits = &self.config.limits;
        if limits.facts_max == usize::MAX && limits.listing_bytes_max == u64::MAX {
            return;
        }
        self.learnt = self.learnt.wrapping_add(1);
        let Some(entry) = self.entries.get_mut(path) else { return };
        entry.learnt = self.learnt;
        if matches!(entry.fact, Fact::Listing(..)) {
            self.listed.push_back(path.clone());
        }
        if !was_known {
            self.forgettable.push_back(path.clone());
        }
        // Drops paths that are not known any more, and duplicates.
        let queued_max = 2 * self.entries.len() + GONE_MAX;
        if self.listed.len() > queued_max {
            let mut seen = BTreeSet::new();
            self.listed.retain(|path| self.entries.listing(path).is_some() && seen.insert(path.clone()));
        }
        if self.forgettable.len() > queued_max {
            let mut seen = BTreeSet::new();
            self.forgettable.retain(|path| self.entries.get(path).is_some() && seen.insert(path.clone()));
        }
    }

    /// Forgets the oldest unused records, while there are more than the limits allow: a clock whose hand
    /// passes used ones.
    pub(super) fn forget_some(&mut self) {
        let learnt = self.learnt.wrapping_sub(self.learnt_before) as usize;
        self.learnt_before = self.learnt;
        let steps = STEPS + STEPS_FOR_LEARNT * learnt;
        for _ in 0..steps {
            // Records with content leave with it.
            if self.entries.len() - self.sieve.files() <= self.config.limits.facts_max {
                break;
            }
            let Some(path) = self.forgettable.pop_front() else { break };
            if !self.forget(&path) && self.entries.get(&path).is_some() {
                self.forgettable.push_back(path);
            }
        }
        for _ in 0..steps {
            if self.entries.listing_bytes() <= self.config.limits.listing_bytes_max {
                break;
            }
            let Some(path) = self.listed.pop_front() else { break };
            if !self.forget(&path) && self.entries.listing(&path).is_some() {
                self.listed.push_back(path);
            }
        }
    }

    /// Passes a path through, and with `tree` all below it, because its source file has changed or vanished
    /// since it was published.
    pub(super) fn changed(&mut self, path: &Path, tree: bool) {
        if self.passthrough.covers(path) {
            return;
        }
        self.stats.changed += 1;
        self.outputs.push_back(Output::Changed { path: path.clone() });
        self.begin_passthrough(path, tree, None);
        self.passthrough.insert(path, tree, true);
    }

    /// Forgets a path. False if it is in use.
    fn forget(&mut self, path: &Path) -> bool {
        let Some(entry) = self.entries.get(path) else { return false };
        let is_requesting = entry.directory.as_ref().is_some_and(|d| matches!(d.details, Details::Requested { .. }));
        // The store may refuse the eviction.
        let is_evicted = || self.evicted.iter().any(|evicted| evicted.path == *path);
        let is_used = entry.stored.is_some()
            || is_evicted()
            || entry.is_arriving()
            || is_requesting
            || self.learnt.wrapping_sub(entry.learnt) < RECENT
            || self.passthrough.covers(path)
            || self.pending.keys_of(path).next().is_some()
            || (entry.is_dir() && (self.entries.has_descendants(path) || self.pending.has_below(path)));
        if is_used {
            return false;
        }
        let Some(entry) = self.entries.remove(path) else { return false };
        self.note_forgotten(path, &entry.fact);
        self.stats.forgotten += 1;
        self.outputs.push_back(Output::Forget { path: path.clone() });
        debug_assert!(!matches!(entry.fact, Fact::Listing(..)) || !self.entries.has_descendants(path));
        true
    }
}
