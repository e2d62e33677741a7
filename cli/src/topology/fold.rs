//! Folds a tree into few groups of nodes, so that a person can read a tree of any size.
//!
//! Nodes of a group have parents in one group. Where it fits, they have subtrees of equal shape; in larger trees only
//! subtrees of equal height, or the same level. Each node is in exactly one group.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// The most groups of a folded tree.
pub const GROUPS_MAX: usize = 40;
/// Levels at each end of a chain that aren't folded together.
const SINGLE_LEVELS: usize = 16;

/// Nodes that are folded together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Their ranks, at least one.
    pub ranks: Vec<u32>,
    /// Number of groups above.
    pub indent: usize,
    /// The least and the greatest number of links to the reader.
    pub levels: (u32, u32),
    /// The least and the greatest number of children.
    pub children: (u32, u32),
    /// The least and the greatest number of nodes below one of them.
    pub below: (u32, u32),
}

/// Folds the tree below `root`. `parents` has each rank's parent; other ranks without a parent aren't in the tree.
/// Returns groups in the order of lines: each is followed by those below it.
pub fn fold(root: u32, parents: &[Option<u32>]) -> Vec<Group> {
    let tree = Tree::new(root, parents);
    let by_shape = || tree.groups(&tree.shapes());
    let by_height = || tree.groups(&tree.heights);
    let by_level =
        || tree.groups(&tree.children.iter().map(|children| u32::from(!children.is_empty())).collect::<Vec<_>>());
    by_shape().or_else(by_height).or_else(by_level).unwrap_or_else(|| tree.spans())
}

/// A tree, by rank.
struct Tree {
    children: Vec<Vec<u32>>,
    levels: Vec<u32>,
    heights: Vec<u32>,
    below: Vec<u32>,
    /// The ranks of the tree, parents before children.
    order: Vec<u32>,
}

impl Tree {
    fn new(root: u32, parents: &[Option<u32>]) -> Tree {
        let mut children = vec![Vec::new(); parents.len()];
        for (rank, parent) in (0..).zip(parents) {
            if let Some(parent) = parent {
                children[*parent as usize].push(rank);
            }
        }
        let (mut levels, mut order) = (vec![0; parents.len()], vec![root]);
        let mut next = 0;
        while let Some(&rank) = order.get(next) {
            for &child in &children[rank as usize] {
                levels[child as usize] = levels[rank as usize] + 1;
                order.push(child);
            }
            next += 1;
        }
        let (mut heights, mut below) = (vec![0; parents.len()], vec![0; parents.len()]);
        for &rank in order.iter().rev() {
            let all = children[rank as usize].iter();
            heights[rank as usize] = all.clone().map(|&child| heights[child as usize] + 1).max().unwrap_or(0);
            below[rank as usize] = all.map(|&child| below[child as usize] + 1).sum();
        }
        Tree { children, levels, heights, below, order }
    }

    /// Returns a number for each rank that subtrees of equal shape share.
    fn shapes(&self) -> Vec<u32> {
        let mut shapes = vec![0; self.children.len()];
        let mut numbers: HashMap<Vec<u32>, u32> = HashMap::new();
        for &rank in self.order.iter().rev() {
            let mut below: Vec<u32> =
                self.children[rank as usize].iter().map(|&child| shapes[child as usize]).collect();
            below.sort_unstable();
            let next = numbers.len() as u32;
            shapes[rank as usize] = *numbers.entry(below).or_insert(next);
        }
        shapes
    }

    /// Returns the groups in which siblings, and children of one group, have one key; `None` if these are too many.
    fn groups(&self, keys: &[u32]) -> Option<Vec<Group>> {
        let mut groups = Vec::new();
        let mut open = vec![(0, vec![self.order[0]])];
        while let Some((indent, ranks)) = open.pop() {
            let mut below: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            for &child in ranks.iter().flat_map(|&rank| &self.children[rank as usize]) {
                below.entry(keys[child as usize]).or_default().push(child);
            }
            // What has most below it stands first, so its line is taken last from the end.
            let mut below: Vec<Vec<u32>> = below.into_values().collect();
            below.sort_by_key(|ranks| (self.below[ranks[0] as usize], Reverse(ranks[0])));
            open.extend(below.into_iter().map(|ranks| (indent + 1, ranks)));
            groups.push(self.group(indent, ranks));
            if groups.len() + open.len() > GROUPS_MAX {
                return None;
            }
        }
        Some(groups)
    }

    /// Returns a group for each level, and one for all levels in the middle.
    fn spans(&self) -> Vec<Group> {
        let mut levels: Vec<Vec<u32>> = Vec::new();
        for &rank in &self.order {
            let level = self.levels[rank as usize] as usize;
            levels.resize(levels.len().max(level + 1), Vec::new());
            levels[level].push(rank);
        }
        let end = levels.len().saturating_sub(SINGLE_LEVELS).max(SINGLE_LEVELS).min(levels.len());
        let middle: Vec<u32> = levels.drain(SINGLE_LEVELS.min(end)..end).flatten().collect();
        if !middle.is_empty() {
            levels.insert(SINGLE_LEVELS, middle);
        }
        levels.into_iter().enumerate().map(|(indent, ranks)| self.group(indent, ranks)).collect()
    }

    fn group(&self, indent: usize, ranks: Vec<u32>) -> Group {
        let range = |of: &dyn Fn(usize) -> u32| {
            let all = ranks.iter().map(|&rank| of(rank as usize));
            (all.clone().min().unwrap_or(0), all.max().unwrap_or(0))
        };
        Group {
            indent,
            levels: range(&|rank| self.levels[rank]),
            children: range(&|rank| self.children[rank].len() as u32),
            below: range(&|rank| self.below[rank]),
            ranks,
        }
    }
}

#[cfg(test)]
mod tests {
    use headwater_daemon::{Branching, Forest, Shape};
    use headwater_topology::Rank;

    use super::*;

    /// Folds a tree, and checks that each of its ranks is in one group, and each group below the group of its parents.
    fn checked(root: u32, parents: &[Option<u32>]) -> Vec<Group> {
        let groups = fold(root, parents);
        let mut ranks: Vec<u32> = groups.iter().flat_map(|group| group.ranks.clone()).collect();
        ranks.sort_unstable();
        let members = (0..).zip(parents).filter(|(rank, parent)| *rank == root || parent.is_some());
        assert!(ranks.into_iter().eq(members.map(|(rank, _)| rank)), "{parents:?}");
        assert!(groups.len() <= GROUPS_MAX);
        let mut path: Vec<&Group> = Vec::new();
        for group in &groups {
            path.truncate(group.indent);
            assert_eq!(path.len(), group.indent);
            if let (Some(above), true) = (path.last(), group.levels.0 == group.levels.1) {
                let is_above = |rank: &u32| parents[*rank as usize].is_some_and(|parent| above.ranks.contains(&parent));
                assert!(group.ranks.len() > 200 || group.ranks.iter().all(is_above), "{group:?} {above:?}");
            }
            path.push(group);
        }
        groups
    }

    fn of_forest(ranks: u32, servers: u32, shape: Shape) {
        let forest = Forest::new(ranks, servers, shape);
        for tree in forest.tree_ids() {
            let parents: Vec<_> =
                (0..ranks).map(|rank| forest.parent(tree, Rank(rank)).map(|parent| parent.0)).collect();
            checked(forest.root(tree).0, &parents);
        }
    }

    #[test]
    fn folding_loses_no_node_and_doubles_none() {
        for ranks in (1..70).chain([255, 256, 1000, 5000]) {
            of_forest(ranks, 0, Shape::default_of(ranks));
            of_forest(ranks, (ranks - 1).min(3), Shape::default_of(ranks));
            for branching in [1, 2, 8].map(Branching::KAry).into_iter().chain([Branching::Binomial]) {
                of_forest(ranks, 0, Shape::Single(branching));
                of_forest(ranks, (ranks - 1).min(2), Shape::Partitioned { groups: 3, branching });
            }
        }
    }

    #[test]
    fn trees_of_any_form_are_folded() {
        // A linear congruential generator (Knuth's MMIX).
        let mut state = 1_u64;
        let mut below = |limit: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % u64::from(limit)) as u32
        };
        for case in 0..300 {
            let ranks = 1 + below(400);
            // From chains to stars.
            let near = 1 + below(1 + case);
            let parent = |rank: u32, back: u32| rank.checked_sub(1).map(|last| last - back % near.min(last + 1));
            let parents: Vec<Option<u32>> = (0..ranks).map(|rank| parent(rank, below(1 << 20))).collect();
            checked(0, &parents);
        }
    }

    #[test]
    fn equal_subtrees_are_one_group() {
        // Two children, with two each.
        let parents = [None, Some(0), Some(0), Some(1), Some(1), Some(2), Some(2)];
        let groups = checked(0, &parents);
        let of = |group: &Group| (group.ranks.clone(), group.children, group.below);
        assert_eq!(
            groups.iter().map(of).collect::<Vec<_>>(),
            [(vec![0], (2, 2), (6, 6)), (vec![1, 2], (2, 2), (2, 2)), (vec![3, 4, 5, 6], (0, 0), (0, 0))]
        );
    }

    #[test]
    fn a_long_chain_is_folded_in_the_middle() {
        let parents: Vec<Option<u32>> = (0..1000_u32).map(|rank| rank.checked_sub(1)).collect();
        let groups = checked(0, &parents);
        assert_eq!((groups.len(), groups[16].levels, groups[17].levels), (33, (16, 983), (984, 984)));
    }
}
