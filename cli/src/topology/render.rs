//! Prints the trees as text, and for Graphviz.

use std::fmt;

use headwater_daemon::{Branching, Shape};
use headwater_figures::text::columns;
use headwater_topology::hosts::Hostlist;
use headwater_topology::{Rank, TreeId};

use super::overview::{NodePosition, Overview, Plan};

/// The most names of a path in a line.
const PATH_SHOWN: usize = 6;

impl fmt::Display for Overview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = counted(self.nodes, "node");
        write!(f, "{nodes}: {}", described(self.shape, self.trees_total))?;
        writeln!(f, "; depth {}, at most {} from a node", self.depth, counted(self.links_max, "link"))?;
        if !self.servers.is_empty() {
            writeln!(f, "{} serve and run no program", self.servers)?;
        }
        let heading = ["TREE", "READER", "THEN", "NODES", "DEPTH", "FORWARDING", "MOST CHILDREN"].map(String::from);
        let row = |tree: &super::overview::TreeOverview| {
            vec![
                tree.tree.to_string(),
                tree.reader.clone(),
                tree.successors.first().cloned().unwrap_or_else(|| "-".into()),
                tree.nodes.to_string(),
                tree.depth.to_string(),
                tree.forwarding.to_string(),
                tree.children_max.to_string(),
            ]
        };
        let rows: Vec<_> = std::iter::once(heading.to_vec()).chain(self.trees.iter().map(row)).collect();
        f.write_str(&columns(&rows, 3))
    }
}

impl fmt::Display for NodePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = if self.is_server { ", serves and runs no program" } else { "" };
        writeln!(f, "{}, rank {}{role}; {}", self.node, self.rank, counted(self.links, "link"))?;
        let heading = ["TREE", "FROM PARENT TO READER", "CHILDREN", "IF PARENTS DIE"].map(String::from);
        let row = |position: &super::overview::TreePosition| {
            let last = if position.may_read { "it reads" } else { "source files" };
            let more = (position.turns_to_more > 0).then(|| format!("{} more", position.turns_to_more));
            let then: Vec<String> = position.turns_to.iter().cloned().chain(more).chain([last.into()]).collect();
            vec![
                position.tree.to_string(),
                position.parent.as_ref().map_or_else(|| "(reads)".into(), |parent| path(parent, &position.path)),
                if position.children.is_empty() { "-".into() } else { folded(&position.children) },
                if position.parent.is_none() { "-".into() } else { then.join(", ") },
            ]
        };
        let rows: Vec<_> = std::iter::once(heading.to_vec()).chain(self.trees.iter().map(row)).collect();
        f.write_str(&columns(&rows, 4))
    }
}

/// Writes the trees as a graph in Graphviz's language, each in its own colour.
pub fn dot(plan: &Plan<'_>, only: Option<TreeId>, f: &mut impl fmt::Write) -> fmt::Result {
    writeln!(f, "digraph headwater {{\n  node [shape=box];")?;
    let mut readers: Vec<Rank> = plan.trees(only).map(|tree| plan.forest.root(tree)).collect();
    readers.sort_unstable();
    readers.dedup();
    for reader in readers {
        writeln!(f, "  \"{}\" [style=bold];", plan.name(reader))?;
    }
    for tree in plan.trees(only) {
        let hue = f64::from(tree.0) / f64::from(plan.forest.trees());
        for rank in (0..plan.forest.ranks()).map(Rank) {
            if let Some(parent) = plan.forest.parent(tree, rank) {
                let (parent, child) = (plan.name(parent), plan.name(rank));
                writeln!(
                    f,
                    "  \"{parent}\" -> \"{child}\" [color=\"{hue:.3} 0.8 0.7\", tooltip=\"tree {}\"];",
                    tree.0
                )?;
            }
        }
    }
    writeln!(f, "}}")
}

/// Returns the names from a parent to the reader, without those in the middle of many.
fn path(parent: &str, above: &[String]) -> String {
    let all: Vec<&str> = std::iter::once(parent).chain(above.iter().map(String::as_str)).collect();
    match all.len() {
        0..=PATH_SHOWN => all.join(", "),
        len => format!("{}, …, {}", all[..PATH_SHOWN - 1].join(", "), all[len - 1]),
    }
}

fn described(shape: Shape, trees: u32) -> String {
    let of = |branching| match branching {
        Branching::KAry(1) => "a chain".into(),
        Branching::KAry(fan_out) => format!("at most {fan_out} children"),
        Branching::Binomial => "binomial".into(),
    };
    match shape {
        Shape::Single(branching) => format!("one tree, {}", of(branching)),
        Shape::Striped { .. } => counted(trees, "striped tree"),
        Shape::Partitioned { branching, .. } => format!("{}, {}", counted(trees, "group"), of(branching)),
    }
}

fn folded(names: &[String]) -> String {
    Hostlist::from_names(names).map_or_else(|_| names.join(","), |list| list.to_string())
}

fn counted(number: u32, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::arrangement::Arrangement;
    use crate::topology::options::{ShapeOptions, local_nodes};

    fn with_plan(nodes: u32, options: &ShapeOptions, check: impl FnOnce(&Plan<'_>)) {
        let hosts = local_nodes(nodes);
        check(&Plan::new(&hosts, &Arrangement::new(options, &hosts, None).unwrap()));
    }

    #[test]
    fn people_can_read_it() {
        let binary = ShapeOptions { fan_out: Some(Branching::KAry(2)), ..ShapeOptions::default() };
        with_plan(5, &binary, |plan| {
            let text = plan.overview(None).to_string();
            let expected = "5 nodes: one tree, at most 2 children; depth 2, at most 3 links from a node\n\
                            TREE  READER  THEN  NODES  DEPTH  FORWARDING  MOST CHILDREN\n\
                            0     n0      n1        5      2           2              2\n";
            assert_eq!(text, expected);
            let expected = "n1, rank 1; 3 links\n\
                            TREE  FROM PARENT TO READER  CHILDREN  IF PARENTS DIE\n\
                            0     n0                     n[3-4]    it reads\n";
            assert_eq!(plan.of(Rank(1), None).to_string(), expected);
        });
        let servers = ShapeOptions { readers: "n1".parse().ok(), ..ShapeOptions::default() };
        with_plan(6, &servers, |plan| {
            let text = plan.overview(None).to_string();
            assert!(text.starts_with("6 nodes: 4 striped trees") && text.contains("\nn1 serve"), "{text}");
            assert!(plan.of(Rank(0), None).to_string().contains("(reads)"));
        });
    }

    #[test]
    fn a_graph_has_each_edge_once() {
        with_plan(9, &ShapeOptions::default(), |plan| {
            let mut text = String::new();
            dot(plan, None, &mut text).unwrap();
            let edges = text.lines().filter(|line| line.contains("->")).count();
            assert_eq!(edges as u32, plan.forest.trees() * 8, "{text}");
            assert!(text.starts_with("digraph") && text.ends_with("}\n"));
            let mut one = String::new();
            dot(plan, Some(TreeId(1)), &mut one).unwrap();
            assert_eq!(one.lines().filter(|line| line.contains("->")).count(), 8);
        });
    }
}
