//! The measurements that the command line selects.

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};

/// All measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Part {
    /// Each pattern on one node, from a warm cache.
    Node,
    /// Each pattern on 4 nodes and a file server, with slow links.
    Nodes,
    /// A file that all of 8 nodes need, from a server with a link of 1 Gbit/s.
    Broadcast,
    /// Each pattern by the number of nodes and by size, as curves.
    Curves,
    /// Each pattern in pairs of operations of all sizes: is any slower?
    Matrix,
    /// Programs without a pattern.
    Quiet,
}

#[derive(Args, Clone, Debug)]
pub(in crate::bench) struct Options {
    /// The measured programs.
    #[arg(long = "part", value_delimiter = ',', value_name = "PART", default_values = ["node", "nodes", "broadcast", "curves", "matrix", "quiet"])]
    pub(super) parts: Vec<Part>,
    /// With which MPIs, as openmpi4 or mpich5; all that are installed if none is named.
    #[arg(long = "mpi", value_delimiter = ',', value_name = "NAME")]
    pub(super) mpis: Vec<String>,
    /// How often.
    #[arg(long, default_value = "7", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub(super) rounds: usize,
    /// The size of the largest file, in bytes.
    #[arg(long, default_value = "1073741824", value_parser = clap::value_parser!(u64).range(1024..))]
    pub(super) bytes_max: u64,
    /// Where the curves and their data are written: `runs.csv` there, to which runs are added.
    #[arg(long, value_name = "DIRECTORY", default_value = "target/bench/io/curves")]
    pub(super) curves: PathBuf,
    /// Only the curves' runs on these numbers of nodes.
    #[arg(long, value_delimiter = ',', value_name = "NUMBER")]
    pub(super) nodes: Vec<usize>,
    /// Only the curves' runs of one, two or three dimensions.
    #[arg(long, value_delimiter = ',', value_name = "NUMBER", default_values = ["1", "2", "3"])]
    pub(super) dimensions: Vec<usize>,
    /// Also write the tables to this file.
    #[arg(long, value_name = "FILE")]
    pub(super) markdown: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::parsed;

    #[test]
    fn arguments_are_options() {
        let options: Options = parsed("--part node,quiet --mpi mpich4 --rounds 3 --bytes-max 4096").unwrap();
        assert_eq!((options.parts.len(), &*options.mpis[0], options.rounds, options.bytes_max), (2, "mpich4", 3, 4096));
        assert_eq!(parsed::<Options>("").unwrap().parts, Part::value_variants());
        for (wrong, part) in [("--part x", "'x'"), ("--rounds", "a value is required"), ("--x 1", "'--x'")] {
            let error = parsed::<Options>(wrong).unwrap_err();
            assert!(error.contains(part), "{wrong}: {error}");
        }
    }
}
