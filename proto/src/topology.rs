//! The overlay's shape, a pure function of the number of ranks and the fan-out.

use serde::{Deserialize, Serialize};

/// A daemon's number in the hostlist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Rank(pub u32);

impl Rank {
    /// The rank that reads the shared file system.
    pub const ROOT: Rank = Rank(0);
}

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

    /// How many ranks there are.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The most children that a rank has.
    pub fn fan_out(&self) -> u32 {
        self.fan_out
    }

    /// The rank one hop nearer to the root.
    pub fn parent(&self, rank: Rank) -> Option<Rank> {
        (rank.0 > 0).then(|| Rank((rank.0 - 1) / self.fan_out))
    }

    /// The ranks one hop further from the root, ascending.
    pub fn children(&self, rank: Rank) -> impl Iterator<Item = Rank> + use<> {
        let first = u64::from(rank.0) * u64::from(self.fan_out) + 1;
        let end = (first + u64::from(self.fan_out)).min(u64::from(self.ranks));
        (first..end.max(first)).map(|r| Rank(r as u32))
    }

    /// The ranks from the parent up to the root.
    pub fn ancestors(&self, rank: Rank) -> impl Iterator<Item = Rank> + use<> {
        let tree = *self;
        core::iter::successors(tree.parent(rank), move |&r| tree.parent(r))
    }

    /// Hops from the root to the furthest rank.
    pub fn depth(&self) -> u32 {
        self.ancestors(Rank(self.ranks - 1)).count() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn parents_and_children_agree() {
        for (ranks, fan_out) in [(1, 1), (2, 8), (16, 2), (17, 3), (100, 8), (9, 1)] {
            let tree = Topology::new(ranks, fan_out);
            let mut reached = alloc::vec![Rank::ROOT];
            for rank in (0..ranks).map(Rank) {
                for child in tree.children(rank) {
                    assert_eq!(tree.parent(child), Some(rank));
                    reached.push(child);
                }
                assert!(tree.ancestors(rank).count() as u32 <= tree.depth());
            }
            assert_eq!(reached, (0..ranks).map(Rank).collect::<Vec<_>>());
        }
        assert_eq!(Topology::new(u32::MAX, 8).children(Rank(u32::MAX - 1)).count(), 0);
    }
}
