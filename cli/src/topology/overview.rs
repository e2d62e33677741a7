//! Describes the trees: their numbers, and one node's position in each.

use headwater_topology::hosts::Hostlist;
use headwater_topology::{Forest, Rank, Shape, TreeId, Up};
use serde::Serialize;

use super::arrangement::Arrangement;

/// Limit of listed nodes on the way from a node to the reader.
const PATH_MAX: usize = 32;
/// Limit of listed nodes that a node turns to.
const TURNS_MAX: usize = 4;

/// Nodes, their ranks and the trees.
#[derive(Debug)]
pub struct Plan<'a> {
    hosts: &'a Hostlist,
    arrangement: &'a Arrangement,
    /// The trees.
    pub forest: Forest,
}

/// All trees in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Overview {
    /// Number of nodes.
    pub nodes: u32,
    /// The servers, as a hostlist.
    pub servers: String,
    /// The kind of trees.
    pub shape: Shape,
    /// Number of trees.
    pub trees_total: u32,
    /// The depth of the deepest tree.
    pub depth: u32,
    /// The most links of a node, over all trees.
    pub links_max: u32,
    /// Each tree.
    pub trees: Vec<TreeOverview>,
}

/// One tree in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TreeOverview {
    /// Its number.
    pub tree: u32,
    /// Its reader.
    pub reader: String,
    /// The nodes that read for it if the reader dies, in order.
    pub successors: Vec<String>,
    /// Number of nodes that take part.
    pub nodes: u32,
    /// Its depth.
    pub depth: u32,
    /// The most children that a node has.
    pub children_max: u32,
    /// Number of nodes with children.
    pub forwarding: u32,
}

/// One node's position in all trees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodePosition {
    /// Its name.
    pub node: String,
    /// Its rank.
    pub rank: u32,
    /// Whether it is a server.
    pub is_server: bool,
    /// Number of its links while all nodes live.
    pub links: u32,
    /// Its position in each of its trees.
    pub trees: Vec<TreePosition>,
}

/// One node's position in a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TreePosition {
    /// The tree's number.
    pub tree: u32,
    /// Its parent; `None` for the tree's reader.
    pub parent: Option<String>,
    /// The nodes from its parent's parent to the reader; of many the first ones and the reader.
    pub path: Vec<String>,
    /// Its children.
    pub children: Vec<String>,
    /// The first nodes that it turns to, in order, if its parents die.
    pub turns_to: Vec<String>,
    /// Number of further ones.
    pub turns_to_more: u32,
    /// Whether it reads if all those are dead; otherwise its programs use the source files.
    pub may_read: bool,
}

impl<'a> Plan<'a> {
    /// Returns the trees of an arrangement of these nodes.
    pub fn new(hosts: &'a Hostlist, arrangement: &'a Arrangement) -> Plan<'a> {
        Plan { hosts, arrangement, forest: arrangement.forest() }
    }

    /// Returns the name of a rank's node.
    pub fn name(&self, rank: Rank) -> String {
        self.node_name(self.node(rank))
    }

    /// Returns the index of a rank's node in the list of nodes.
    pub fn node(&self, rank: Rank) -> u32 {
        self.arrangement.nodes[rank.0 as usize]
    }

    /// Returns the name of the node with this index in the list of nodes.
    pub fn node_name(&self, node: u32) -> String {
        self.hosts.name(Rank(node)).unwrap_or_default()
    }

    /// Describes all trees, or one.
    pub fn overview(&self, only: Option<TreeId>) -> Overview {
        let servers = (0..self.forest.servers()).map(|rank| self.name(Rank(rank)));
        let mut links = vec![0; self.forest.ranks() as usize];
        let mut trees: Vec<TreeOverview> = self.trees(None).map(|tree| self.tree(tree, &mut links)).collect();
        trees.retain(|tree| only.is_none_or(|TreeId(only)| only == tree.tree));
        Overview {
            nodes: self.forest.ranks(),
            servers: Hostlist::from_names(servers).unwrap_or_default().to_string(),
            shape: self.arrangement.shape,
            trees_total: self.forest.trees(),
            depth: trees.iter().map(|tree| tree.depth).max().unwrap_or(0),
            links_max: links.into_iter().max().unwrap_or(0).min(self.forest.ranks() - 1),
            trees,
        }
    }

    /// Returns all trees, or one.
    pub fn trees(&self, only: Option<TreeId>) -> impl Iterator<Item = TreeId> + use<> {
        self.forest.tree_ids().filter(move |tree| only.is_none_or(|only| only == *tree))
    }

    /// Describes one tree; adds to each rank's links.
    fn tree(&self, tree: TreeId, links: &mut [u32]) -> TreeOverview {
        let unknown = u32::MAX;
        let mut depths = vec![unknown; self.forest.ranks() as usize];
        let mut children = vec![0; depths.len()];
        depths[self.forest.root(tree).0 as usize] = 0;
        let mut path = Vec::new();
        for member in (0..self.forest.ranks()).map(Rank) {
            // Ascends to a rank with a known depth, and descends again.
            let mut at = member;
            while depths[at.0 as usize] == unknown {
                let Some(parent) = self.forest.parent(tree, at) else { break };
                children[parent.0 as usize] += 1;
                links[parent.0 as usize] += 1;
                links[at.0 as usize] += 1;
                path.push(at);
                at = parent;
            }
            let above = depths[at.0 as usize];
            path.drain(..).rev().zip(1..).for_each(|(rank, below)| depths[rank.0 as usize] = above + below);
        }
        TreeOverview {
            tree: tree.0,
            reader: self.name(self.forest.root(tree)),
            successors: self.forest.candidates(tree).skip(1).take(TURNS_MAX).map(|rank| self.name(rank)).collect(),
            nodes: self.forest.members(tree),
            depth: depths.into_iter().filter(|depth| *depth != unknown).max().unwrap_or(0),
            forwarding: children.iter().filter(|children| **children > 0).count() as u32,
            children_max: children.into_iter().max().unwrap_or(0),
        }
    }

    /// Returns a rank's position in all trees, or in one.
    pub fn of(&self, rank: Rank, only: Option<TreeId>) -> NodePosition {
        let trees = self.trees(only).filter(|tree| self.forest.contains(*tree, rank));
        NodePosition {
            node: self.name(rank),
            rank: rank.0,
            is_server: rank.0 < self.forest.servers(),
            links: self.forest.neighbours(rank).len() as u32,
            trees: trees.map(|tree| self.position(tree, rank)).collect(),
        }
    }

    fn position(&self, tree: TreeId, rank: Rank) -> TreePosition {
        let names = |ranks: Vec<Rank>| ranks.into_iter().map(|rank| self.name(rank)).collect();
        let mut dead: Vec<Rank> = self.forest.parent(tree, rank).into_iter().collect();
        let last = loop {
            match self.forest.next_alive(tree, rank, |other| dead.contains(&other)) {
                Up::To(next) => dead.push(next),
                last => break last,
            }
        };
        let mut path: Vec<Rank> = self.forest.ancestors(tree, rank).skip(1).collect();
        if path.len() > PATH_MAX {
            path.truncate(PATH_MAX - 1);
            path.push(self.forest.root(tree));
        }
        let turns_to: Vec<Rank> = dead.split_off(dead.len().min(1));
        TreePosition {
            tree: tree.0,
            parent: dead.first().map(|&parent| self.name(parent)),
            path: names(path),
            children: names(self.forest.children(tree, rank)),
            turns_to_more: turns_to.len().saturating_sub(TURNS_MAX) as u32,
            turns_to: names(turns_to.into_iter().take(TURNS_MAX).collect()),
            may_read: last == Up::Reader,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::options::{ShapeOptions, local_nodes};
    use headwater_daemon::Branching;

    fn arrangement(nodes: u32, options: &ShapeOptions) -> Arrangement {
        Arrangement::new(options, &local_nodes(nodes), None).unwrap()
    }

    #[test]
    fn trees_are_counted_as_they_are() {
        let options = [
            ShapeOptions::default(),
            ShapeOptions { trees: Some(3), readers: "n[2-4]".parse().ok(), ..ShapeOptions::default() },
            ShapeOptions { fan_out: Some(Branching::Binomial), ..ShapeOptions::default() },
            ShapeOptions { groups: Some(3), fan_out: Some(Branching::KAry(2)), ..ShapeOptions::default() },
        ];
        for (nodes, options) in [9, 40].into_iter().flat_map(|nodes| options.iter().map(move |o| (nodes, o))) {
            let (hosts, arrangement) = (local_nodes(nodes), arrangement(nodes, options));
            let plan = Plan::new(&hosts, &arrangement);
            let overview = plan.overview(None);
            assert_eq!(overview.trees.len() as u32, plan.forest.trees());
            let links = (0..nodes).map(|rank| plan.of(Rank(rank), None).links).max().unwrap();
            assert!((links..links * 2).contains(&overview.links_max), "{overview:?}");
            for tree in &overview.trees {
                let id = TreeId(tree.tree);
                let members: Vec<Rank> = (0..nodes).map(Rank).filter(|rank| plan.forest.contains(id, *rank)).collect();
                let depth = members.iter().map(|&rank| plan.forest.ancestors(id, rank).count()).max();
                let children: Vec<usize> = members.iter().map(|&r| plan.forest.children(id, r).len()).collect();
                assert_eq!(tree.nodes as usize, members.len());
                assert_eq!(Some(tree.depth as usize), depth, "{options:?}");
                assert_eq!(Some(tree.children_max as usize), children.iter().max().copied(), "{options:?}");
                assert_eq!(tree.forwarding as usize, children.iter().filter(|c| **c > 0).count());
            }
        }
    }

    #[test]
    fn a_node_turns_to_its_ancestors() {
        let (hosts, options) = (
            local_nodes(30),
            ShapeOptions { trees: Some(1), fan_out: Some(Branching::KAry(2)), ..ShapeOptions::default() },
        );
        let arrangement = arrangement(30, &options);
        let plan = Plan::new(&hosts, &arrangement);
        let position = |rank| plan.of(Rank(rank), None).trees.remove(0);
        let last = position(29);
        assert_eq!((last.parent.as_deref(), last.turns_to.join(" ")), (Some("n14"), "n6 n2 n0 n1".into()));
        assert_eq!((last.turns_to_more, last.may_read), (16 - 4 - 1, false));
        let second = position(2);
        assert_eq!((second.children.join(" "), second.turns_to.join(" ")), ("n5 n6".into(), "n1".into()));
        assert!(
            second.may_read && position(0).may_read && position(0).parent.is_none() && position(0).turns_to.is_empty()
        );
    }

    #[test]
    fn names_follow_the_order_of_ranks() {
        let (hosts, options) = (local_nodes(8), ShapeOptions { readers: "n7".parse().ok(), ..ShapeOptions::default() });
        let arrangement = arrangement(8, &options);
        let plan = Plan::new(&hosts, &arrangement);
        let overview = plan.overview(Some(TreeId(0)));
        assert_eq!((&*overview.servers, &*overview.trees[0].reader, overview.trees.len()), ("n7", "n7", 1));
        let of = plan.of(Rank(0), None);
        assert!(of.is_server && of.node == "n7");
    }
}
