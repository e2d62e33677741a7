//! What a rank does in the trees while all ranks are alive.

use headwater_topology::{Forest, Rank};
use serde::{Deserialize, Serialize};

/// What a rank does in the trees while all ranks are alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It reads the shared file system for others.
    Reader,
    /// It receives content and sends it on.
    Relay,
    /// It receives content.
    #[default]
    Leaf,
}

impl Role {
    /// Returns the role of a rank.
    pub(crate) fn of(forest: &Forest, rank: Rank) -> Role {
        let reads = rank.0 < forest.servers() || forest.tree_ids().any(|tree| forest.root(tree) == rank);
        match reads {
            true => Role::Reader,
            false if is_leaf(forest, rank) => Role::Leaf,
            false => Role::Relay,
        }
    }

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Reader => "reader",
            Role::Relay => "relay",
            Role::Leaf => "leaf",
        }
    }
}

/// Returns true if a rank sends to no other rank while all are alive.
pub(crate) fn is_leaf(forest: &Forest, rank: Rank) -> bool {
    forest.tree_ids().all(|tree| !forest.contains(tree, rank) || forest.children(tree, rank).is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_topology::{Branching, Shape};

    #[test]
    fn roles_follow_from_the_trees() {
        let roles = |servers, shape| {
            let forest = Forest::new(6, servers, shape);
            (0..6).map(|rank| Role::of(&forest, Rank(rank)).name()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(roles(0, Shape::Single(Branching::KAry(2))), "reader relay relay leaf leaf leaf");
        let groups = Shape::Partitioned { groups: 2, branching: Branching::KAry(2) };
        assert_eq!(roles(2, groups), "reader reader leaf leaf leaf leaf");
        assert_eq!(roles(2, Shape::Single(Branching::KAry(1))), "reader reader relay relay relay leaf");
    }
}
