//! A rank's next hop when others have died.
//!
//! Each tree has one fixed order of its ranks: the root, then the dedicated servers in a circle, then the
//! others, parents before children. The first of them are the tree's candidates: a candidate reads if all
//! before it are dead. A rank's next hop is always before it in that order, so no rank is its own ancestor,
//! whatever the ranks believe about each other.

use crate::forest::{Forest, TreeId};
use crate::rank::Rank;

/// A rank's next hop in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Up {
    /// This rank.
    To(Rank),
    /// It is the tree's reader.
    Reader,
    /// All possible next hops are dead, and the rank is no candidate: its programs use the source files.
    Unreachable,
}

impl Forest {
    /// Returns the ranks that may read for a tree, each if those before it are dead; the first is the root.
    pub fn candidates(&self, tree: TreeId) -> impl Iterator<Item = Rank> + use<> {
        let forest = *self;
        (0..self.candidates_count(tree)).map(move |order| forest.at(tree, order))
    }

    /// Returns the next hop of `rank` in a tree, by its own view of dead ranks: its nearest live ancestor; if
    /// all are dead, the first live candidate before it. Ranks that have not been seen yet are not dead.
    pub fn next_alive(&self, tree: TreeId, rank: Rank, is_dead: impl Fn(Rank) -> bool) -> Up {
        let Some(order) = self.order(tree, rank) else { return Up::Unreachable };
        let count = self.candidates_count(tree);
        let before = (0..order.min(count)).map(|candidate| self.at(tree, candidate));
        match self.ancestors(tree, rank).chain(before).find(|&other| !is_dead(other)) {
            Some(other) => Up::To(other),
            None if order < count => Up::Reader,
            None => Up::Unreachable,
        }
    }

    /// Returns whether `upper` may ever be the next hop of `lower` in a tree, in any view of the others.
    pub fn may_turn_to(&self, tree: TreeId, lower: Rank, upper: Rank) -> bool {
        let (Some(below), Some(above)) = (self.order(tree, lower), self.order(tree, upper)) else { return false };
        above < below && (above < self.candidates_count(tree) || self.ancestors(tree, lower).any(|r| r == upper))
    }

    fn candidates_count(&self, tree: TreeId) -> u32 {
        self.servers().max(1).saturating_add(self.successors_max()).min(self.members(tree))
    }
}
