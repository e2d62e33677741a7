//! Comparing what different ranks have read: if a path has two versions, neither is used.
//!
//! A node that reads a file's content or a directory's names reports that to the reader of the path's entry.
//! A node that gets a new parent, because a rank was lost or has come back, reports what it knows of the
//! tree. A node that gets a version which it knows agrees with all above it; a version which it does not know
//! it passes on.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use headwater_abi::Path;
use headwater_abi::wire::{Aspect, CHANGES_MAX, Fact, Message, Version};

use super::Node;
use crate::topology::{TreeId, Up};
use crate::versions::version_of;
use crate::{Peer, Rank};

/// Versions of each tree that wait to be reported; further ones are not compared.
const UNREPORTED_MAX: usize = 1 << 16;

impl Node {
    /// Returns the largest number of versions to be reported for one tree.
    pub(super) fn unreported_most(&self) -> usize {
        self.version_reports.unreported.values().map(BTreeMap::len).max().unwrap_or_default()
    }

    /// Notes that this node has read something itself: in another tree than the one that serves the path's
    /// entry, or while it had no parent there and one has come back since.
    pub(super) fn note_read(&mut self, path: &Path) {
        let facts = self.home(path, Aspect::Entry, None);
        if self.up_in(facts) != Up::Reader
            && let Some(fact) = self.entries.fact(path)
        {
            let version = version_of(path, fact);
            self.report_later(facts, version);
        }
    }

    /// Notes that this node has forgotten a path.
    pub(super) fn note_forgotten(&mut self, path: &Path, fact: &Fact) {
        if self.version_reports.may_read {
            self.versions.remember(path, fact);
        }
        if self.is_reader_of(path, Aspect::Entry) {
            self.refresh.may_have_forgotten = true;
        }
        for tree in self.homes(path) {
            if self.version_reports.unsettled.contains(&tree) {
                self.report_later(tree, version_of(path, fact));
            }
        }
    }

    /// Notes that this node has a new parent in these trees.
    pub(super) fn unsettle(&mut self, trees: impl IntoIterator<Item = TreeId>) {
        self.version_reports.unsettled.extend(trees);
    }

    /// Returns the trees whose versions this node reports to a rank.
    pub(super) fn trees_reported_to(&self, rank: Rank) -> Vec<TreeId> {
        self.config.forest.tree_ids().filter(|&tree| self.up_to_compare(tree) == Up::To(rank)).collect()
    }

    /// Compares all again: a new generation has begun, with possibly other versions.
    pub(super) fn compare_anew(&mut self) {
        self.version_reports.unreported.clear();
        if self.ups.contains(&Some(Up::Reader)) {
            self.version_reports.unsettled.extend(self.config.forest.tree_ids());
        }
    }

    /// Returns the rank that gets reports of a tree: for a reader the tree's reader, else the parent.
    fn up_to_compare(&self, tree: TreeId) -> Up {
        let is_reader = self.config.forest.is_striped() && self.ups.contains(&Some(Up::Reader));
        if is_reader { self.reader_of(tree) } else { self.up_in(tree) }
    }

    /// Returns the trees in which anything about a path is requested.
    fn homes(&self, path: &Path) -> BTreeSet<TreeId> {
        [Aspect::Entry, Aspect::Whole].into_iter().map(|aspect| self.home(path, aspect, None)).collect()
    }

    fn report_later(&mut self, tree: TreeId, version: Version) {
        let unreported = self.version_reports.unreported.entry(tree).or_default();
        let Some(before) = unreported.get(&version.path) else {
            if unreported.len() < UNREPORTED_MAX {
                unreported.insert(version.path.clone(), version);
            }
            return;
        };
        if is_other(before, &version) {
            let is_dir = version.names.is_some() && before.fact != version.fact;
            unreported.remove(&version.path);
            self.changed(&version.path, is_dir);
        }
    }

    /// Sends the waiting reports to the ranks that are up.
    pub(super) fn report_versions(&mut self) {
        if self.version_reports.unreported.is_empty() && self.version_reports.unsettled.is_empty() {
            return;
        }
        let trees: BTreeSet<TreeId> =
            self.version_reports.unreported.keys().chain(&self.version_reports.unsettled).copied().collect();
        for tree in trees {
            let Up::To(rank) = self.up_to_compare(tree) else { continue };
            if !self.is_up(rank) {
                continue;
            }
            let mut versions = self.version_reports.unreported.remove(&tree).unwrap_or_default();
            if self.version_reports.unsettled.remove(&tree) {
                let is_of = |path: &&Path| !self.passthrough.covers(path) && self.homes(path).contains(&tree);
                let known = self.entries.paths().filter(is_of);
                let known = known.filter_map(|path| Some((path.clone(), version_of(path, self.entries.fact(path)?))));
                versions.extend(known);
            }
            let versions: Vec<Version> = versions.into_values().collect();
            for versions in versions.chunks(CHANGES_MAX) {
                let message = Message::Read { tree: tree.0, versions: versions.to_vec() };
                self.send(Peer::Parent(rank), message);
            }
        }
    }

    /// Handles versions that a node below reports.
    pub(super) fn versions_reported(
        &mut self,
        from: Rank,
        tree: TreeId,
        versions: Vec<Version>,
    ) -> Result<(), &'static str> {
        if tree.0 >= self.config.forest.trees() {
            return Err("there is no such tree");
        }
        let mut unknown_there = BTreeMap::new();
        for version in versions {
            if let Some((path, tree)) = self.passthrough.covering(&version.path) {
                unknown_there.insert(path, tree);
            }
            if self.is_settled(&version) {
                continue;
            }
            if self.up_in(tree) != Up::Reader {
                self.report_later(tree, version);
                continue;
            }
            if self.reader_of(self.home(&version.path, Aspect::Whole, None)) != Up::To(from) {
                // Ranks that know it may not be asked whether it has changed.
                self.refresh.may_have_forgotten = true;
            }
            let facts = self.home(&version.path, Aspect::Entry, None);
            if facts != tree {
                self.report_later(facts, version.clone());
            }
            if self.config.forest.root(tree) != self.config.rank {
                self.report_later(tree, version);
            }
        }
        // The rank that announced them may be lost before it has reached all.
        for (path, tree) in unknown_there {
            self.announce_to(Peer::Child(from), Message::Passthrough { path, tree });
        }
        Ok(())
    }

    /// Compares a reported version with the known one. False if none is known.
    fn is_settled(&mut self, reported: &Version) -> bool {
        let path = &reported.path;
        if !self.scope.contains(path) || self.passthrough.covers(path) {
            return true;
        }
        if let Some(fact) = self.entries.fact(path) {
            let known = version_of(path, fact);
            let is_listed = fact.attr().is_some() && matches!(fact, Fact::Listing(..) | Fact::Unlistable(_));
            if is_other(&known, reported) {
                self.changed(path, is_listed && known.fact != reported.fact);
            }
            return true;
        }
        if self.versions.contradict_version(reported) {
            self.changed(path, reported.names.is_some());
            return true;
        }
        if self.version_reports.may_read {
            self.versions.remember_version(reported);
        }
        false
    }
}

/// Returns whether two versions are of different things.
fn is_other(one: &Version, other: &Version) -> bool {
    one.fact != other.fact || matches!((one.names, other.names), (Some(one), Some(other)) if one != other)
}
