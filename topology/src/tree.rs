//! One tree over the ranks in their order, whose root is rank 0. Every parent's number is smaller
//! than its children's.

use alloc::boxed::Box;

use serde::{Deserialize, Serialize};

use crate::rank::Rank;

/// How a tree branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Branching {
    /// Complete, with this many children.
    KAry(u32),
    /// Binomial: a rank's parent is its number without the lowest set bit, so each subtree is an interval of ranks.
    /// If each rank sends a message to one child after the other, it reaches all in ⌈log₂ n⌉ steps, the fewest
    /// possible.
    Binomial,
}

/// A tree over the ranks in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    ranks: u32,
    branching: Branching,
}

impl Tree {
    /// `ranks` and a k-ary tree's number of children are at least 1.
    pub fn new(ranks: u32, branching: Branching) -> Tree {
        assert!(ranks > 0 && branching != Branching::KAry(0), "a tree has a root and a fan-out");
        Tree { ranks, branching }
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Returns the rank one hop nearer to the root.
    pub fn parent(&self, Rank(rank): Rank) -> Option<Rank> {
        let below = rank.checked_sub(1)?;
        Some(Rank(match self.branching {
            Branching::KAry(fan_out) => below / fan_out,
            Branching::Binomial => rank & below,
        }))
    }

    /// Returns the ranks one hop further from the root, in the order in which to serve them: in a k-ary tree
    /// ascending, in a binomial one the largest subtree first.
    pub fn children(&self, Rank(rank): Rank) -> Box<dyn Iterator<Item = Rank>> {
        let ranks = self.ranks;
        match self.branching {
            Branching::KAry(fan_out) => {
                let first = u64::from(rank) * u64::from(fan_out) + 1;
                let end = (first + u64::from(fan_out)).min(ranks.into());
                Box::new((first..end).map(|child| Rank(child as u32)))
            }
            Branching::Binomial => {
                let children = (0..rank.trailing_zeros()).rev().map(move |bit| rank | 1 << bit);
                Box::new(children.filter(move |&child| child < ranks).map(Rank))
            }
        }
    }

    /// Returns the ranks from the parent up to the root.
    pub fn ancestors(&self, rank: Rank) -> impl Iterator<Item = Rank> + use<> {
        let tree = *self;
        core::iter::successors(tree.parent(rank), move |&r| tree.parent(r))
    }

    /// Returns the hops from the root to the furthest rank.
    pub fn depth(&self) -> u32 {
        let last = self.ranks - 1;
        match self.branching {
            Branching::KAry(1) => last,
            Branching::KAry(_) => self.ancestors(Rank(last)).count() as u32,
            // The most bits in a rank's number.
            Branching::Binomial => {
                let with_lower_ones = |bit: u32| (last >> bit >> 1).count_ones() + bit;
                let shorter = (0..u32::BITS).filter(|bit| last >> bit & 1 == 1).map(with_lower_ones);
                shorter.max().unwrap_or(0).max(last.count_ones())
            }
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
            let fan_out = match tree.branching {
                Branching::KAry(fan_out) => fan_out,
                Branching::Binomial => u32::BITS - (tree.ranks() - 1).leading_zeros(),
            };
            assert!(tree.children(rank).count() as u32 <= fan_out, "{tree:?} {rank:?}");
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
        let tree = Tree::new(17, Branching::KAry(3));
        let reached: Vec<Rank> = (0..17).flat_map(|rank| tree.children(Rank(rank))).collect();
        assert_eq!(reached, (1..17).map(Rank).collect::<Vec<_>>());
    }

    #[test]
    fn the_root_of_a_binomial_tree_has_the_logarithm_of_children() {
        for (ranks, fan_out) in [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (1024, 10), (1025, 11), (u32::MAX, 32)] {
            let tree = Tree::new(ranks, Branching::Binomial);
            assert_eq!(tree.children(Rank::ROOT).count() as u32, fan_out, "{ranks}");
        }
        assert_eq!(Tree::new(12, Branching::Binomial).children(Rank(8)).collect::<Vec<_>>(), [Rank(10), Rank(9)]);
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
