//! To whom a rank turns when others have died.
//!
//! Each tree has one fixed order of its ranks: the root, then the dedicated servers in a circle,
//! then the others, parents before children. The first of them are the tree's candidates: should
//! all before it be dead, a candidate reads. A rank turns only to ranks before it in that order, so
//! whatever each rank believes about the others, nobody is its own ancestor.

use crate::forest::{Forest, TreeId};
use crate::rank::Rank;

/// Where a rank turns in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Up {
    /// It asks this rank.
    To(Rank),
    /// It is the tree's reader.
    Reader,
    /// All that it could ask are dead, and it is no candidate: it leaves its programs to the
    /// original paths.
    Unreachable,
}

impl Forest {
    /// The ranks that read for a tree, each if those before it are dead; the first is the root.
    pub fn candidates(&self, tree: TreeId) -> impl Iterator<Item = Rank> + use<> {
        let forest = *self;
        (0..self.candidates_count(tree)).map(move |order| forest.at(tree, order))
    }

    /// Where `rank` turns in a tree, by its own view of who is dead: to its nearest live ancestor;
    /// if all are dead, to the first live candidate before it. Ranks that have not been seen yet
    /// are not dead.
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

    /// Whether `lower` may ever turn to `upper` in a tree, whatever it believes about the others.
    pub fn may_turn_to(&self, tree: TreeId, lower: Rank, upper: Rank) -> bool {
        let (Some(below), Some(above)) = (self.order(tree, lower), self.order(tree, upper)) else { return false };
        above < below && (above < self.candidates_count(tree) || self.ancestors(tree, lower).any(|r| r == upper))
    }

    fn candidates_count(&self, tree: TreeId) -> u32 {
        self.servers().max(1).saturating_add(self.successors_max()).min(self.members(tree))
    }
}
