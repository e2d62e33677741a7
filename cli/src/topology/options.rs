//! The options that shape the overlay, and the command line of `headwater topology`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, ValueHint};
use headwater_daemon::Branching;
use headwater_topology::hosts::{HOSTS_MAX, Hostlist};

use crate::options::headings::{OUTPUT, OVERLAY};
use crate::options::opposites::Given;
use crate::options::values::{number, number_from};

/// What `headwater topology --help` shows at the end.
pub const TOPOLOGY_HELP: &str = "\
Examples:
  headwater topology --nodes 16
  headwater topology --nodes node[001-512] --readers node[001-004] --topology /etc/slurm/topology.conf
  headwater topology --nodes 16 --of n5
  headwater topology --nodes 5000 --svg > tree.svg

Without --trees, --groups or --fan-out up to 3 nodes are one tree, and more are striped trees: a node \
forwards in one of them and only receives in the others, and paths and pieces of large files are dealt to \
all. THEN is the node that reads if the reader dies, DEPTH the number of links from the reader to the furthest node, \
and FORWARDING the number of nodes that forward.

Below, one tree is drawn, the first or that of --tree. Nodes with alike places are one line, and its numbers are those \
of each of them. With --topology, a line has the switch of its nodes, or how many switches they have.";

/// What shapes the overlay.
#[derive(Clone, Debug, Default, Args)]
pub struct ShapeOptions {
    /// Striped trees over the nodes; a node forwards in one, to about as many nodes as there are trees
    /// [default: 8 from 4 nodes on; fewer where nodes are few]
    #[arg(long, value_name = "T", env = "HEADWATER_TREES", value_parser = number(1..=64),
          help_heading = OVERLAY)]
    pub trees: Option<u32>,

    /// How many of the nodes read the shared file system; or which ones, such as n[0-1], and then they
    /// run no program [default: one of 200 nodes, 2 to 8]
    #[arg(long, value_name = "N|NODES", env = "HEADWATER_READERS", help_heading = OVERLAY)]
    pub readers: Option<Readers>,

    /// Groups of neighbouring nodes, each with a tree and a reader: each file is read once for each
    #[arg(long, value_name = "K", env = "HEADWATER_GROUPS", value_parser = number_from(1),
          help_heading = OVERLAY)]
    pub groups: Option<u32>,

    /// One tree (or one for each group) in which each node has at most K children; or `binomial`
    #[arg(long, value_name = "K", env = "HEADWATER_FAN_OUT", value_parser = parse_branching, help_heading = OVERLAY)]
    pub fan_out: Option<Branching>,

    /// Which nodes are neighbours: Slurm's topology.conf, or lines with a node and its rack
    #[arg(long, value_name = "FILE", env = "HEADWATER_TOPOLOGY", value_hint = ValueHint::FilePath,
          help_heading = OVERLAY)]
    pub topology: Option<PathBuf>,
}

/// The readers of the shared file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readers {
    /// So many of the nodes.
    Count(u32),
    /// These nodes, which run no program.
    Nodes(Hostlist),
}

/// Options of `headwater topology`.
#[derive(Clone, Debug, Args)]
pub struct TopologyOptions {
    /// The nodes: how many (they are then n0, n1, …), or which ones, such as node[001-128]
    #[arg(long, value_name = "N|NODES", env = "SLURM_JOB_NODELIST", value_parser = parse_nodes)]
    pub nodes: Hostlist,

    #[command(flatten)]
    pub shape: ShapeOptions,

    /// Only this tree
    #[arg(long, value_name = "T", help_heading = OUTPUT)]
    pub tree: Option<u32>,

    /// One node's position in each tree: its parent, its children, and the nodes that it turns to when others die
    #[arg(long, value_name = "NODE", help_heading = OUTPUT)]
    pub of: Option<String>,

    /// Print JSON
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,

    /// Print a drawing of one tree, the first or that of --tree, as SVG
    #[arg(long, conflicts_with_all = ["json", "of", "dot"], help_heading = OUTPUT)]
    pub svg: bool,

    /// Print the trees for Graphviz
    #[arg(long, conflicts_with_all = ["json", "of"], help_heading = OUTPUT)]
    pub dot: bool,
}

impl ShapeOptions {
    /// Lets the command line win over contradicting variables and files; `forget`: these don't count.
    pub fn settle(&mut self, matches: &ArgMatches, forget: bool) {
        let is_typed = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let is_list = matches!(self.readers, Some(Readers::Nodes(_)));
        let given = |id| Given { id, is_on_or_number: id != "readers" || !is_list };
        let typed = ["trees", "groups", "fan_out", "readers"].into_iter().filter(|id| is_typed(id));
        let is_void = |id| typed.clone().any(|higher| given(higher).overrules(given(id)));
        let is_outdated = |id| !is_typed(id) && (forget || is_void(id));
        self.trees.take_if(|_| is_outdated("trees"));
        self.groups.take_if(|_| is_outdated("groups"));
        self.fan_out.take_if(|_| is_outdated("fan_out"));
        self.readers.take_if(|_| is_outdated("readers"));
        self.topology.take_if(|_| is_outdated("topology"));
    }
}

impl FromStr for Readers {
    type Err = String;

    fn from_str(text: &str) -> Result<Readers, String> {
        match count(text)? {
            Some(count) => Ok(Readers::Count(count)),
            None => parse_list(text).map(Readers::Nodes),
        }
    }
}

/// Returns the names of so many nodes of a session on this machine.
pub fn local_nodes(count: u32) -> Hostlist {
    let text = format!("n[0-{}]", count.saturating_sub(1));
    Hostlist::parse(&text).unwrap_or_default()
}

fn parse_nodes(text: &str) -> Result<Hostlist, String> {
    match count(text)? {
        Some(count) if count as usize <= HOSTS_MAX => Ok(local_nodes(count)),
        Some(_) => Err(format!("there are at most {HOSTS_MAX} nodes")),
        None => parse_list(text),
    }
}

/// Parses a list of distinct nodes, at least one.
pub fn parse_list(text: &str) -> Result<Hostlist, String> {
    let list = Hostlist::parse(text).map_err(|error| error.to_string())?.distinct();
    if list.is_empty() { Err("write a number, or names such as node[001-128]".into()) } else { Ok(list) }
}

/// Parses a number of nodes, at least 1; `None` if the text is not a number.
fn count(text: &str) -> Result<Option<u32>, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(None);
    }
    let number = text.parse().ok().filter(|&number| number > 0);
    number.map(Some).ok_or_else(|| "write a number of 1 or more, or names such as node[001-128]".into())
}

fn parse_branching(text: &str) -> Result<Branching, String> {
    match text.parse() {
        Ok(fan_out @ 1..=1024) => Ok(Branching::KAry(fan_out)),
        _ if text == "binomial" => Ok(Branching::Binomial),
        _ => Err("write a number from 1 to 1024, or binomial".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_from_names() {
        let check = |text: &str, expected: Option<Readers>| assert_eq!(text.parse().ok(), expected, "{text}");
        let list = |text| Some(Readers::Nodes(Hostlist::parse(text).unwrap()));
        check("4", Some(Readers::Count(4)));
        check("n4", list("n4"));
        check("n[0-1],n3", list("n0,n1,n3"));
        check("n0,n0", list("n0"));
        for wrong in ["0", "", "n[", "99999999999", " "] {
            check(wrong, None);
        }
        assert_eq!(parse_nodes("3").unwrap(), Hostlist::parse("n0,n1,n2").unwrap());
        assert_eq!(parse_nodes("1").unwrap().len(), 1);
        assert!(parse_nodes("9999999").is_err());
    }

    #[test]
    fn trees_branch_by_number_or_binomially() {
        assert_eq!(parse_branching("8"), Ok(Branching::KAry(8)));
        assert_eq!(parse_branching("binomial"), Ok(Branching::Binomial));
        for wrong in ["0", "1025", "-1", "binary", ""] {
            assert!(parse_branching(wrong).is_err(), "{wrong}");
        }
    }
}
