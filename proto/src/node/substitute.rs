//! Reading for a tree whose root is lost, or out of reach. Once there is somebody to ask again, what was
//! read meanwhile is compared with what others have read: of a path of which there are two versions, none is
//! used any more.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use headwater_abi::Path;
use headwater_abi::wire::{Aspect, CHANGES_MAX, Fact, Message, Version};

use super::Node;
use crate::entry::attr_of;
use crate::topology::{TreeId, Up};
use crate::versions::version_of;
use crate::{Peer, Rank};

/// Paths that are remembered of each tree; what is read beyond them is not compared.
const READ_MAX: usize = 1 << 16;

/// What was read for trees that are another's.
#[derive(Debug, Default)]
pub(super) struct Substitute {
    read: BTreeMap<TreeId, BTreeSet<Path>>,
    /// Trees whose root was lost: when it is back it may know nothing.
    lost: BTreeSet<TreeId>,
}

impl Node {
    /// This node has read something by itself.
    pub(super) fn note_read(&mut self, path: &Path, aspect: Aspect) {
        let forest = self.config.forest;
        let tree = self.home(path, aspect, None);
        if forest.contains(tree, self.config.rank) && forest.root(tree) != self.config.rank {
            let read = self.substitute.read.entry(tree).or_default();
            if read.len() < READ_MAX {
                read.insert(path.clone());
            }
        }
    }

    /// A parent is lost. If it has read, what it told is to be compared with what it reads when it is back.
    pub(super) fn note_lost(&mut self, rank: Rank) {
        let forest = self.config.forest;
        let is_root = |tree: &TreeId| forest.contains(*tree, self.config.rank) && forest.root(*tree) == rank;
        self.substitute.lost.extend(forest.tree_ids().filter(is_root));
    }

    /// Everything that is known of a tree's paths, once its root is back.
    fn note_returned(&mut self) {
        let forest = self.config.forest;
        let is_back = |tree: &TreeId| self.up_in(*tree) == Up::To(forest.root(*tree)) && self.is_up(forest.root(*tree));
        let back: Vec<TreeId> = self.substitute.lost.iter().copied().filter(is_back).collect();
        for tree in back {
            self.substitute.lost.remove(&tree);
            let aspects = [Aspect::Entry, Aspect::Listing, Aspect::Whole];
            let is_of = |path: &&Path| aspects.iter().any(|&aspect| self.home(path, aspect, None) == tree);
            let known: Vec<Path> = self.entries.paths().filter(is_of).take(READ_MAX).cloned().collect();
            self.substitute.read.entry(tree).or_default().extend(known);
        }
    }

    /// Tells what was read to those who can be asked again.
    pub(super) fn tell_read(&mut self) {
        self.note_returned();
        let told: Vec<(TreeId, Rank)> = self
            .substitute
            .read
            .keys()
            .filter_map(|&tree| match self.up_in(tree) {
                Up::To(rank) if self.is_up(rank) => Some((tree, rank)),
                _ => None,
            })
            .collect();
        for (tree, rank) in told {
            let read = self.substitute.read.remove(&tree).unwrap_or_default();
            let version = |path: &Path| self.entries.fact(path).map(|fact| version_of(path, fact));
            let versions: Vec<Version> = read.iter().filter_map(version).collect();
            for versions in versions.chunks(CHANGES_MAX) {
                let message = Message::Read { tree: tree.0, versions: versions.to_vec() };
                self.tell(Peer::Parent(rank), message);
            }
        }
    }

    /// Somebody below has read this.
    pub(super) fn read_below(&mut self, tree: TreeId, versions: Vec<Version>) -> Result<(), &'static str> {
        if tree.0 >= self.config.forest.trees() {
            return Err("there is no such tree");
        }
        for told in &versions {
            self.compare(tree, told);
        }
        if let Up::To(rank) = self.up_in(tree)
            && self.is_up(rank)
        {
            self.tell(Peer::Parent(rank), Message::Read { tree: tree.0, versions });
        }
        Ok(())
    }

    fn compare(&mut self, tree: TreeId, told: &Version) {
        let path = &told.path;
        if !self.scope.contains(path) || self.live.covers(path) {
            return;
        }
        let Some(fact) = self.entries.fact(path) else {
            if self.up_in(tree) == Up::Reader {
                self.versions.remember_fact(path, told.fact);
            }
            return;
        };
        let known = version_of(path, fact);
        let has_other_names = matches!((known.names, told.names), (Some(known), Some(told)) if known != told);
        if known.fact != told.fact || has_other_names {
            let is_dir = attr_of(fact).is_some() && matches!(fact, Fact::Listing(..) | Fact::Unlistable(_));
            self.changed(path, is_dir && known.fact != told.fact);
        }
    }
}
