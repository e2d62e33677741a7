//! A node's parents and the links to them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headwater_abi::wire::{self, TransferId};

use crate::entry::Piece;
use crate::topology::{Forest, TreeId};
use crate::{Rank, Time};

/// A rank nearer to a root, to which this node sends requests.
#[derive(Debug)]
pub(crate) struct Parent {
    pub(crate) link: Link,
    /// The trees in which it serves this node, as last reported to it.
    pub(crate) joined: Joined,
    /// Transfers that it is sending.
    pub(crate) incoming: BTreeMap<TransferId, Piece>,
    /// The last transfer that it began; its numbers ascend.
    pub(crate) newest: Option<TransferId>,
    pub(crate) heard: Time,
    /// When it was probed since then.
    pub(crate) probed: Option<Time>,
    /// Set if it was given up for its silence: how often the timeouts were doubled then.
    pub(crate) given_up: Option<u32>,
    pub(crate) generation: u64,
    /// It is a downstream source: asked only for what this node has evicted.
    pub(crate) is_downstream_source: bool,
    /// True if some tree needs it. If none does, its link ends once it owes nothing.
    pub(crate) is_wanted: bool,
}

impl Parent {
    /// Makes a parent whose link is expected until `until`.
    pub(crate) fn starting(until: Time, joined: Joined) -> Parent {
        let link = Link::Starting(until);
        Parent {
            link,
            joined,
            incoming: BTreeMap::new(),
            newest: None,
            heard: 0,
            probed: None,
            given_up: None,
            generation: 1,
            is_downstream_source: false,
            is_wanted: false,
        }
    }
}

/// The state of the link to a parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// Not up yet: until this time requests wait for it.
    Starting(Time),
    Up,
    /// Gone; until this time requests wait for its successor.
    Away(Time),
    /// Gets no requests until it comes up again.
    Dead,
    /// Gets no requests and no link until this time.
    Banned(Time),
}

/// The trees in which one rank is the parent of another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Joined {
    /// Ascending.
    pub(crate) trees: Vec<TreeId>,
    /// Whether messages for all nodes travel over this link.
    pub(crate) is_control: bool,
    /// Whether the child, or one that has lost the first reader and has turned to the child, reads the shared
    /// file system: this parent asks it for changes.
    pub(crate) is_reader: bool,
}

impl Joined {
    /// Returns the trees while all ranks are alive.
    pub(crate) fn at_first(forest: &Forest, child: Rank, parent: Rank) -> Joined {
        let is_server = child.0 < forest.servers();
        let is_parent = |&tree: &TreeId| forest.contains(tree, child) && forest.parent(tree, child) == Some(parent);
        let trees = forest.tree_ids().filter(|_| !is_server).filter(is_parent).take(wire::TREES_MAX).collect();
        let control = control_tree(forest, child);
        let above = forest.parent(control, child);
        let above = above.or_else(|| (control != TreeId(0)).then(|| forest.root(TreeId(0))));
        let is_reader = parent == forest.root(TreeId(0)) && forest.tree_ids().any(|tree| forest.root(tree) == child);
        Joined { trees, is_control: above == Some(parent) && child != parent, is_reader }
    }
}

/// Returns the tree in which a rank gets the messages for all nodes.
pub(crate) fn control_tree(forest: &Forest, rank: Rank) -> TreeId {
    if forest.is_striped() { TreeId(0) } else { forest.tree_of_path(rank, 0) }
}
