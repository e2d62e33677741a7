//! Removing content at the user's request.

use alloc::vec::Vec;

use headwater_abi::{Path, Want};

use super::Node;
use super::store::EVICTED_MAX;
use crate::Output;

impl Node {
    /// Evicts content of `path`, and with `subtree` of everything below it: from `after` on, in the order of
    /// paths, at most as many files as the store can still refuse.
    pub(super) fn clear(&mut self, path: &Path, subtree: bool, after: Option<&Path>) {
        let root = self.map().walk(path, Want::empty()).path;
        let below = self.entries.descendants(&root).filter(|_| subtree);
        let targets = [&root].into_iter().chain(below).filter(|target| after.is_none_or(|after| *target > after));
        let stored = targets.filter(|target| self.entries.get(target).is_some_and(|entry| entry.stored.is_some()));
        let stored: Vec<Path> = stored.take(EVICTED_MAX).cloned().collect();
        let next = stored.last().filter(|_| stored.len() == EVICTED_MAX).cloned();
        let mut in_transit = 0;
        for target in stored {
            let Some(entry) = self.entries.get(&target) else { continue };
            if entry.is_arriving() || self.children.values().any(|child| child.needs(&target)) {
                in_transit += 1;
            } else {
                self.evict(target.clone(), &target);
            }
        }
        self.outputs.push_back(Output::Cleared { path: path.clone(), subtree, next, in_transit });
    }
}
