//! The measurements that the command line selects.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, RangedU64ValueParser, TypedValueParser};

/// The workloads, in the order of measuring.
pub(super) const WORKLOADS: [&str; 8] =
    ["numpy", "scipy.stats", "pandas", "pynamic", "pynamic-mpi", "launch", "broadcast", "torch"];
/// Those that are measured unless others are named: all but the last, which takes 8 GB of memory.
const DEFAULT: usize = WORKLOADS.len() - 1;
const VARIANTS: [&str; 4] = ["plain", "headwater", "headwater-recorded", "floor"];
const SERVERS: [&str; 3] = ["slow-metadata", "slow-link", "quick"];
/// One more node, the server, belongs to the cluster.
const NODES_MAX: u64 = headwater_cluster::NODES_MAX as u64 - 1;

/// The cases, and how often each is measured.
#[derive(Args, Clone, Debug)]
pub(in crate::bench) struct Options {
    /// Numbers of nodes.
    #[arg(long, value_delimiter = ',', default_values = ["1", "2", "4", "8", "16", "32"], value_parser = count(NODES_MAX))]
    pub(super) nodes: Vec<usize>,
    /// The workloads. torch takes 8 GB of memory, and 2 more for each node.
    #[arg(long = "workload", value_delimiter = ',', default_values = &WORKLOADS[..DEFAULT], value_parser = one_of(&WORKLOADS))]
    pub(super) workloads: Vec<&'static str>,
    /// From which servers.
    #[arg(long = "server", value_delimiter = ',', default_values = &SERVERS[..2], value_parser = one_of(&SERVERS))]
    pub(super) servers: Vec<&'static str>,
    /// How programs are started, by their names in the results.
    #[arg(long = "ways", value_delimiter = ',', default_values = VARIANTS, value_parser = one_of(&VARIANTS))]
    pub(super) variants: Vec<&'static str>,
    /// Pynamic's processes on each node.
    #[arg(long, default_value = "4", value_parser = count(1 << 10))]
    pub(super) processes: usize,
    /// How often each is measured.
    #[arg(long, default_value = "3", value_parser = count(1 << 10))]
    pub(super) rounds: usize,
    /// Pynamic's sizes are the paper's over this.
    #[arg(long, default_value = "4", value_parser = count(1 << 10))]
    pub(super) divisor: usize,
    /// The directory of the results.
    #[arg(long, default_value_os_t = crate::workspace().join("target/bench/storm/results"), value_name = "DIR")]
    pub(super) out: PathBuf,
}

impl Options {
    /// With the fewest nodes first.
    pub(super) fn in_order(mut self) -> Options {
        self.nodes.sort_unstable();
        self
    }

    /// The most nodes.
    pub(super) fn nodes_max(&self) -> usize {
        self.nodes.iter().copied().max().expect("a list has a number")
    }
}

fn count(max: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=max)
}

fn one_of(all: &'static [&'static str]) -> impl TypedValueParser<Value = &'static str> {
    let find = |word: String| all.iter().copied().find(|known| *known == word).expect("it was one of them");
    PossibleValuesParser::new(all).map(find)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::parsed;

    #[test]
    fn restrictions() {
        let options: Options = parsed("--nodes 8,2 --workload numpy --server quick --rounds 1").unwrap();
        let options = options.in_order();
        assert_eq!((options.nodes.as_slice(), options.nodes_max(), options.rounds), ([2, 8].as_slice(), 8, 1));
        assert_eq!(
            (options.workloads.as_slice(), options.servers.as_slice()),
            (["numpy"].as_slice(), ["quick"].as_slice())
        );
        assert_eq!(parsed::<Options>("").unwrap().workloads, WORKLOADS[..DEFAULT]);
        for wrong in
            ["--nodes", "--nodes 0", "--nodes 250", "--nodes x", "--workload nump", "--size 3", "--server fast"]
        {
            assert!(parsed::<Options>(wrong).is_err(), "{wrong}");
        }
    }
}
