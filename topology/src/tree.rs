//! One tree over the ranks in their order, whose root is rank 0. Every parent's number is smaller
//! than its children's.

use alloc::boxed::Box;

use serde::{Deserialize, Serialize};

use crate::rank::Rank;

/// A complete k-ary tree over the ranks in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    ranks: u32,
    fan_out: u32,
}

impl Topology {
    /// `ranks` and `fan_out` are at least 1.
    pub fn new(ranks: u32, fan_out: u32) -> Topology {
        assert!(ranks > 0 && fan_out > 0, "a tree has a root and a fan-out");
        Topology { ranks, fan_out }
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Returns the most children of a rank.
    pub fn fan_out(&self) -> u32 {
        self.fan_out
    }

    /// Returns the rank one hop nearer to the root.
    pub fn parent(&self, rank: Rank) -> Option<Rank> {
        (rank.0 > 0).then(|| Rank((rank.0 - 1) / self.fan_out))
    }

    /// Returns the ranks one hop further from the root, ascending.
    pub fn children(&self, rank: Rank) -> impl Iterator<Item = Rank> + use<> {
        let first = u64::from(rank.0) * u64::from(self.fan_out) + 1;
        let end = (first + u64::from(self.fan_out)).min(u64::from(self.ranks));
        (first..end.max(first)).map(|r| Rank(r as u32))
    }

    /// Returns the ranks from the parent up to the root.
    pub fn ancestors(&self, rank: Rank) -> impl Iterator<Item = Rank> + use<> {
        let tree = *self;
        core::iter::successors(tree.parent(rank), move |&r| tree.parent(r))
    }

    /// Returns the hops from the root to the furthest rank.
    pub fn depth(&self) -> u32 {
        match self.fan_out {
            1 => self.ranks - 1,
            _ => self.ancestors(Rank(self.ranks - 1)).count() as u32,
        }
    }
}

/// A binomial tree over the ranks in their order: a rank's parent is its number without the lowest set bit,
/// so each subtree is an interval of ranks. If each rank sends a message to one child after the other, it
/// reaches all in ⌈log₂ n⌉ steps, the fewest possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binomial {
    ranks: u32,
}

impl Binomial {
    /// `ranks` is at least 1.
    pub fn new(ranks: u32) -> Binomial {
        assert!(ranks > 0, "a tree has a root");
        Binomial { ranks }
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Returns the most children of a rank: the root's.
    pub fn fan_out(&self) -> u32 {
        u32::BITS - (self.ranks - 1).leading_zeros()
    }

    /// Returns the rank one hop nearer to the root.
    pub fn parent(&self, rank: Rank) -> Option<Rank> {
        (rank.0 > 0).then(|| Rank(rank.0 & (rank.0 - 1)))
    }

    /// Returns the ranks one hop further from the root, descending: the largest subtree first.
    pub fn children(&self, rank: Rank) -> impl Iterator<Item = Rank> + use<> {
        let (ranks, bits) = (self.ranks, rank.0.trailing_zeros());
        (0..bits).rev().map(move |bit| rank.0 | 1 << bit).filter(move |&child| child < ranks).map(Rank)
    }

    /// Returns the ranks from the parent up to the root.
    pub fn ancestors(&self, rank: Rank) -> impl Iterator<Item = Rank> + use<> {
        let tree = *self;
        core::iter::successors(tree.parent(rank), move |&r| tree.parent(r))
    }

    /// Returns the hops from the root to the furthest rank: the most bits in a rank's number.
    pub fn depth(&self) -> u32 {
        let last = self.ranks - 1;
        let with_lower_ones = |bit: u32| (last >> bit >> 1).count_ones() + bit;
        let shorter = (0..u32::BITS).filter(|bit| last >> bit & 1 == 1).map(with_lower_ones);
        shorter.max().unwrap_or(0).max(last.count_ones())
    }
}

/// How one tree branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Branching {
    /// Complete, with this many children.
    KAry(u32),
    /// Binomial.
    Binomial,
}

/// A tree of either kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tree {
    /// A complete k-ary tree.
    KAry(Topology),
    /// A binomial tree.
    Binomial(Binomial),
}

impl Tree {
    /// `ranks` and a k-ary tree's fan-out are at least 1.
    pub fn new(ranks: u32, branching: Branching) -> Tree {
        match branching {
            Branching::KAry(fan_out) => Tree::KAry(Topology::new(ranks, fan_out)),
            Branching::Binomial => Tree::Binomial(Binomial::new(ranks)),
        }
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> u32 {
        match self {
            Tree::KAry(tree) => tree.ranks(),
            Tree::Binomial(tree) => tree.ranks(),
        }
    }

    /// Returns the most children of a rank.
    pub fn fan_out(&self) -> u32 {
        match self {
            Tree::KAry(tree) => tree.fan_out(),
            Tree::Binomial(tree) => tree.fan_out(),
        }
    }

    /// Returns the rank one hop nearer to the root.
    pub fn parent(&self, rank: Rank) -> Option<Rank> {
        match self {
            Tree::KAry(tree) => tree.parent(rank),
            Tree::Binomial(tree) => tree.parent(rank),
        }
    }

    /// Returns the ranks one hop further from the root, in the order in which to serve them.
    pub fn children(&self, rank: Rank) -> Box<dyn Iterator<Item = Rank>> {
        match self {
            Tree::KAry(tree) => Box::new(tree.children(rank)),
            Tree::Binomial(tree) => Box::new(tree.children(rank)),
        }
    }

    /// Returns the ranks from the parent up to the root.
    pub fn ancestors(&self, rank: Rank) -> impl Iterator<Item = Rank> + use<> {
        let tree = *self;
        core::iter::successors(tree.parent(rank), move |&r| tree.parent(r))
    }

    /// Returns the hops from the root to the furthest rank.
    pub fn depth(&self) -> u32 {
        match self {
            Tree::KAry(tree) => tree.depth(),
            Tree::Binomial(tree) => tree.depth(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn check(tree: Tree) {
        let mut reached = alloc::vec![Rank::ROOT];
        let mut depth = 0;
        for rank in (0..tree.ranks()).map(Rank) {
            assert!(tree.children(rank).count() as u32 <= tree.fan_out(), "{tree:?} {rank:?}");
            for child in tree.children(rank) {
                assert_eq!(tree.parent(child), Some(rank), "{tree:?}");
                assert!(rank < child, "{tree:?}");
                reached.push(child);
            }
            depth = depth.max(tree.ancestors(rank).count() as u32);
        }
        assert_eq!(depth, tree.depth(), "{tree:?}");
        reached.sort();
        assert_eq!(reached, (0..tree.ranks()).map(Rank).collect::<Vec<_>>(), "{tree:?}");
    }

    #[test]
    fn parents_and_children_agree() {
        for ranks in (1..300).chain([1000, 1023, 1024, 1025]) {
            for branching in [1, 2, 3, 8, 400].map(Branching::KAry).into_iter().chain([Branching::Binomial]) {
                check(Tree::new(ranks, branching));
            }
        }
    }

    #[test]
    fn k_ary_children_ascend() {
        let tree = Topology::new(17, 3);
        let reached: Vec<Rank> = (0..17).flat_map(|rank| tree.children(Rank(rank))).collect();
        assert_eq!(reached, (1..17).map(Rank).collect::<Vec<_>>());
    }

    #[test]
    fn the_root_of_a_binomial_tree_has_the_logarithm_of_children() {
        for (ranks, fan_out) in [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (1024, 10), (1025, 11), (u32::MAX, 32)] {
            let tree = Binomial::new(ranks);
            assert_eq!(tree.fan_out(), fan_out, "{ranks}");
            assert_eq!(tree.children(Rank::ROOT).count() as u32, fan_out, "{ranks}");
        }
        assert_eq!(Binomial::new(12).children(Rank(8)).collect::<Vec<_>>(), [Rank(10), Rank(9)]);
    }

    #[test]
    fn as_many_ranks_as_there_can_be() {
        let last = Rank(u32::MAX - 1);
        for (branching, depth) in [(Branching::KAry(8), 11), (Branching::KAry(2), 31), (Branching::Binomial, 31)] {
            let tree = Tree::new(u32::MAX, branching);
            assert_eq!(tree.depth(), depth, "{branching:?}");
            assert_eq!(tree.children(last).count(), 0, "{branching:?}");
            assert!(tree.children(tree.parent(last).unwrap()).any(|child| child == last), "{branching:?}");
        }
    }
}
