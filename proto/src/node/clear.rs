//! Giving content up because the user says so.

use alloc::vec::Vec;

use headwater_abi::{Path, Want};

use super::Node;
use super::store::EVICTED_MAX;
use crate::Output;

impl Node {
    /// Gives up content of `path`, and with `subtree` of everything below it; of those `after` the
    /// given path, in the order of paths, at most as many as can still be refused.
    pub(super) fn clear(&mut self, path: &Path, subtree: bool, after: Option<&Path>) {
        let root = self.map().walk(path, Want::empty()).path;
        let below = self.entries.descendants(&root).filter(|_| subtree);
        let targets = [&root].into_iter().chain(below).filter(|target| after.is_none_or(|after| *target > after));
        let held = targets.filter(|target| self.entries.get(target).is_some_and(|entry| entry.held.is_some()));
        let held: Vec<Path> = held.take(EVICTED_MAX).cloned().collect();
        let next = held.last().filter(|_| held.len() == EVICTED_MAX).cloned();
        let mut in_transit = 0;
        for target in held {
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
