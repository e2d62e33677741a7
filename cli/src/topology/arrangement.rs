//! The nodes' ranks, the servers, and the trees.

use anyhow::{Context, Result, bail, ensure};
use headwater_daemon::{Branching, Forest, Shape};
use headwater_topology::Rank;
use headwater_topology::hosts::{Hostlist, Switches};

use super::options::{Readers, ShapeOptions};

/// The default branching of trees.
const BRANCHING_DEFAULT: Branching = Branching::KAry(8);
/// The smallest number of nodes with striped trees by default.
const STRIPED_MIN: u32 = 4;

/// Nodes with ranks, and the trees over the ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrangement {
    /// By rank, the node's index in the list of nodes. Servers precede the others.
    pub nodes: Vec<u32>,
    /// How many of the first ranks are servers.
    pub servers: u32,
    /// The trees.
    pub shape: Shape,
    /// How many nodes are missing in the topology file.
    pub unplaced: usize,
}

impl Arrangement {
    /// Returns the arrangement of these nodes, which are distinct and at least one. `switches` is the topology file.
    ///
    /// # Errors
    /// The options contradict each other or the nodes; the error names the next step.
    pub fn new(options: &ShapeOptions, hosts: &Hostlist, switches: Option<&Switches>) -> Result<Arrangement> {
        let servers = match &options.readers {
            Some(Readers::Nodes(named)) => servers(named, hosts)?,
            _ => Vec::new(),
        };
        let shape = shape(options, hosts.len() as u32)?;
        let (order, unplaced) = match switches.map(|switches| switches.order(hosts)) {
            Some(order) => (order.ranks.into_iter().map(|rank| rank.0).collect(), order.unknown),
            None => ((0..hosts.len() as u32).collect::<Vec<_>>(), 0),
        };
        let mut is_server = vec![false; hosts.len()];
        servers.iter().for_each(|&node| is_server[node as usize] = true);
        let others = order.into_iter().filter(|&node| !is_server[node as usize]);
        let count = servers.len() as u32;
        Ok(Arrangement { nodes: servers.iter().copied().chain(others).collect(), servers: count, shape, unplaced })
    }

    /// Returns the trees.
    pub fn forest(&self) -> Forest {
        Forest::new(self.nodes.len() as u32, self.servers, self.shape)
    }

    /// Returns the ranks by node.
    pub fn ranks(&self) -> Vec<Rank> {
        let mut ranks = vec![Rank::ROOT; self.nodes.len()];
        for (&node, rank) in self.nodes.iter().zip(0..) {
            ranks[node as usize] = Rank(rank);
        }
        ranks
    }

    /// Returns the nodes that run the program, ascending.
    pub fn program_nodes(&self) -> Vec<u32> {
        let mut nodes = self.nodes[self.servers as usize..].to_vec();
        nodes.sort_unstable();
        nodes
    }
}

/// Returns the indices of dedicated servers among the nodes, in the order of the option.
fn servers(named: &Hostlist, hosts: &Hostlist) -> Result<Vec<u32>> {
    let place = |name: String| {
        let found = hosts.rank_of(&name).map(|rank| rank.0);
        found.with_context(|| format!("--readers {named}: the nodes are {}; name some of them", hosts.folded()))
    };
    let mut places = named.iter().map(place).collect::<Result<Vec<u32>>>()?;
    let mut seen = vec![false; hosts.len()];
    places.retain(|&place| !std::mem::replace(&mut seen[place as usize], true));
    ensure!(
        places.len() < hosts.len(),
        "--readers {named} names all nodes, but readers run no program: leave one out, or give a number"
    );
    Ok(places)
}

/// Returns the trees over `ranks`.
fn shape(options: &ShapeOptions, ranks: u32) -> Result<Shape> {
    let &ShapeOptions { trees, groups, fan_out, .. } = options;
    let readers = match options.readers {
        Some(Readers::Count(count)) => Some(count),
        _ => None,
    };
    let branching = fan_out.unwrap_or(BRANCHING_DEFAULT);
    match (trees.filter(|&trees| trees > 1), groups) {
        (Some(trees), Some(groups)) => {
            bail!("--trees {trees} and --groups {groups}: a group has one tree. Leave one of the two out")
        }
        (Some(trees), None) if fan_out.is_some() => {
            bail!(
                "--trees {trees} and --fan-out: of {trees} striped trees each branches {trees} times. Leave --fan-out out"
            )
        }
        (None, Some(groups)) if readers.is_some_and(|readers| readers != groups) => {
            bail!("--groups {groups}: each group has one reader. Leave the number of --readers out, or name nodes")
        }
        (None, Some(groups)) => Ok(Shape::Partitioned { groups, branching }),
        (None, None) if trees.is_some() || fan_out.is_some() => {
            let is_one = readers.is_none_or(|readers| readers == 1);
            ensure!(
                is_one,
                "one tree has one reader: leave --readers out, name a node with it, or use --trees or --groups"
            );
            Ok(Shape::Single(branching))
        }
        (None, None) if readers.is_none() => Ok(Shape::default_of(ranks)),
        (trees, None) => {
            let (trees_default, readers_default) = striped_default(ranks);
            Ok(Shape::Striped { trees: trees.unwrap_or(trees_default), readers: readers.unwrap_or(readers_default) })
        }
    }
}

/// Returns the default numbers of trees and readers, if only one of the options is given.
fn striped_default(ranks: u32) -> (u32, u32) {
    match Shape::default_of(ranks.max(STRIPED_MIN)) {
        Shape::Striped { trees, readers } => (trees, readers),
        _ => unreachable!("{STRIPED_MIN} ranks and more are striped"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::CommandLine;
    use crate::topology::options::local_nodes;
    use clap::{CommandFactory, FromArgMatches};

    /// Returns the arrangement of so many nodes for a line of options.
    fn arranged(line: &str, nodes: u32, switches: Option<&str>) -> Result<Arrangement> {
        let arguments = ["headwater", "topology", "--nodes", "1"].into_iter().chain(line.split_ascii_whitespace());
        let matches = CommandLine::command().try_get_matches_from(arguments)?;
        let crate::options::Command::Topology(options) = CommandLine::from_arg_matches(&matches)?.command else {
            bail!("topology was given");
        };
        let switches = switches.map(Switches::parse_racks).transpose()?;
        Arrangement::new(&options.shape, &local_nodes(nodes), switches.as_ref())
    }

    #[test]
    fn options_make_a_shape() {
        let striped = |trees, readers| Shape::Striped { trees, readers };
        let groups = |groups, branching| Shape::Partitioned { groups, branching };
        let (single, k_ary) = (Shape::Single, Branching::KAry);
        for (line, nodes, expected) in [
            ("", 1, single(k_ary(8))),
            ("", 3, single(k_ary(8))),
            ("", 16, striped(8, 2)),
            ("", 1000, striped(8, 5)),
            ("--trees 4", 16, striped(4, 2)),
            ("--trees 4 --readers 3", 16, striped(4, 3)),
            ("--readers 1", 16, striped(8, 1)),
            ("--readers 2", 2, striped(2, 2)),
            ("--trees 1", 16, single(k_ary(8))),
            ("--trees 1 --readers 1 --fan-out 2", 16, single(k_ary(2))),
            ("--fan-out binomial", 16, single(Branching::Binomial)),
            ("--groups 4", 16, groups(4, k_ary(8))),
            ("--groups 4 --fan-out 2 --readers 4", 16, groups(4, k_ary(2))),
            ("--readers n[0-1]", 16, striped(8, 2)),
            ("--readers n3 --fan-out 2", 16, single(k_ary(2))),
            ("--readers n3 --groups 2", 16, groups(2, k_ary(8))),
        ] {
            assert_eq!(arranged(line, nodes, None).unwrap().shape, expected, "{line:?} of {nodes}");
        }
    }

    #[test]
    fn contradictions_are_refused_with_what_to_do() {
        for (line, next) in [
            ("--trees 4 --groups 2", "Leave one of the two out"),
            ("--trees 4 --fan-out 2", "Leave --fan-out out"),
            ("--groups 3 --readers 2", "Leave the number of --readers out"),
            ("--fan-out 2 --readers 2", "use --trees or --groups"),
            ("--trees 1 --readers 2", "use --trees or --groups"),
            ("--readers n[3-4]", "the nodes are n[0-3]"),
            ("--readers n[0-3]", "leave one out"),
            ("--trees 0", "write a number from 1 to 64"),
            ("--readers 0", "1 or more"),
        ] {
            let error = format!("{:#}", arranged(line, 4, None).unwrap_err());
            assert!(error.contains(next), "{line}: {error}");
        }
    }

    #[test]
    fn servers_come_first_and_neighbours_together() {
        let check = |line: &str, switches: Option<&str>, nodes: &[u32], servers: u32, unplaced: usize| {
            let found = arranged(line, 6, switches).unwrap();
            assert_eq!((&found.nodes[..], found.servers, found.unplaced), (nodes, servers, unplaced), "{line}");
            for (node, rank) in found.ranks().into_iter().enumerate() {
                assert_eq!(found.nodes[rank.0 as usize] as usize, node);
            }
            let mut running = found.program_nodes();
            assert!(running.is_sorted());
            running.extend(&found.nodes[..servers as usize]);
            running.sort_unstable();
            assert_eq!(running, [0, 1, 2, 3, 4, 5]);
        };
        let racks = "n[0,2,4] even\nn[1,3] odd\n";
        check("", None, &[0, 1, 2, 3, 4, 5], 0, 0);
        check("--readers n4,n1,n4", None, &[4, 1, 0, 2, 3, 5], 2, 0);
        check("", Some(racks), &[0, 2, 4, 1, 3, 5], 0, 1);
        check("--readers n2", Some(racks), &[2, 0, 4, 1, 3, 5], 1, 1);
    }
}
