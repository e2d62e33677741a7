//! The command lines of `headwater simulate` and `headwater plan`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueHint};
use headwater_topology::Branching;

use crate::options::headings::{MODEL, OUTPUT, OVERLAY, WORKLOAD};
use crate::options::values::{number, number_from};

/// What `headwater simulate --help` shows at the end.
pub const SIMULATE_HELP: &str = "\
Examples:
  headwater simulate --nodes 8300 --ppn 12 --trace import-scipy-stats --fs lustre
  headwater simulate --nodes 1..1000000 --trace pynamic:280:215 --fs nfs.toml -o start.svg -o start.csv
  strace -f -y -ttt -e trace=file,desc -o run.strace python3 train.py
  headwater simulate --nodes 1..4096 --trace run.strace --shared /lustre/sw --fs lustre

A trace is a record of `headwater explain -o` or `record`, a file that strace wrote, one of lines such as `0.0002 open 48213 /sw/lib/libx.so` (seconds of \
computing before it, stat|absent|list|open|load, bytes or names, path), or built in: import-numpy, \
import-scipy-stats, pynamic:MODULES:UTILITIES[:DIRECTORIES[:MILLISECONDS]]. -o FILE.trace writes it in \
that form.

SECONDS are from the first process's start to the end of the last one's start-up, with daemons ready; \
READY is how long the daemons themselves take. SHARED FS are operations on its metadata servers.";

/// What `headwater plan --help` shows at the end.
pub const PLAN_HELP: &str = "\
Examples:
  headwater plan --nodes 8300 --ppn 12 --trace import-scipy-stats --fs lustre
  headwater plan --nodes 8944 --ppn 16 --trace pynamic:280:215 --fs nfs -o readers.svg

SERVERS are further nodes that run no program and read instead of the others. Beyond 512 nodes a sample of \
them is simulated, each time with the whole trace. More than 50 readers, servers or groups and more than 8 \
trees are tried only if it was still getting better there. Shapes whose starts differ by less than 2 % count as \
equal; of these one without servers is recommended that asks the shared file system for least, then the default.";

/// The workload and the model.
#[derive(Clone, Debug, Args)]
pub struct SetupOptions {
    /// Processes on each node
    #[arg(long, value_name = "P", default_value_t = 1, value_parser = number(1..=4096),
          help_heading = WORKLOAD)]
    pub ppn: u32,

    /// What one process looks up: a file, or the name of a built-in trace
    #[arg(long, value_name = "FILE|NAME", value_hint = ValueHint::FilePath, help_heading = WORKLOAD)]
    pub trace: String,

    /// Use only the part of the trace in this directory (repeatable, or separated by colons) [default: all]
    #[arg(long, value_name = "DIR", value_delimiter = ':', help_heading = WORKLOAD)]
    pub shared: Vec<String>,

    /// The shared file system: a TOML file, or lustre, nfs or gpfs
    #[arg(long, value_name = "FILE|NAME", default_value = "lustre", value_hint = ValueHint::FilePath,
          help_heading = MODEL)]
    pub fs: String,

    /// Network and nodes, a TOML file [default: 100 Gbit/s, 2 µs, no shared uplinks]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = MODEL)]
    pub network: Option<PathBuf>,

    /// What is left to chance follows from this number
    #[arg(long, value_name = "S", default_value_t = 1, help_heading = MODEL)]
    pub seed: u64,

    /// Also write this: .svg a plot, .csv a table, .trace the trace (repeatable)
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = OUTPUT)]
    pub output: Vec<PathBuf>,

    /// Print JSON
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
}

/// Options of `headwater simulate`.
#[derive(Clone, Debug, Args)]
pub struct SimulateOptions {
    /// Numbers of nodes: one, several separated by commas, or A..B, doubling from A to B
    #[arg(long, value_name = "N")]
    pub nodes: Counts,

    /// The workload and the model.
    #[command(flatten)]
    pub setup: SetupOptions,

    /// Striped trees [default: 8 from 4 nodes on; fewer where nodes are few]
    #[arg(long, value_name = "T", value_parser = number(1..=64), help_heading = OVERLAY)]
    pub trees: Option<u32>,

    /// Nodes that read the shared file system [default: one of 200, 2 to 8]
    #[arg(long, value_name = "N", value_parser = number_from(1), help_heading = OVERLAY)]
    pub readers: Option<u32>,

    /// Further nodes that run no program and are the readers
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = OVERLAY)]
    pub servers: u32,

    /// Groups of neighbouring nodes that each read for themselves
    #[arg(long, value_name = "K", conflicts_with_all = ["trees", "readers"],
          value_parser = number_from(1), help_heading = OVERLAY)]
    pub groups: Option<u32>,

    /// One tree (or one for each group) in which each node has at most K children; or `binomial`
    #[arg(long, value_name = "K", conflicts_with_all = ["trees", "readers"], value_parser = branching,
          help_heading = OVERLAY)]
    pub fan_out: Option<Branching>,

    /// Simulate every node, however many there are [default: up to 512; beyond, a sample stands for all]
    #[arg(long, help_heading = MODEL)]
    pub exact: bool,

    /// Simulate a sample, however few nodes there are
    #[arg(long, conflicts_with = "exact", help_heading = MODEL)]
    pub sample: bool,
}

/// Options of `headwater plan`.
#[derive(Clone, Debug, Args)]
pub struct PlanOptions {
    /// Number of nodes
    #[arg(long, value_name = "N", value_parser = number(1..=NODES_MAX))]
    pub nodes: u32,

    /// The workload and the model.
    #[command(flatten)]
    pub setup: SetupOptions,
}

/// Limit of the number of nodes.
const NODES_MAX: u32 = 100_000_000;

/// Numbers of nodes, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts(pub Vec<u32>);

impl FromStr for Counts {
    type Err = String;

    fn from_str(text: &str) -> Result<Counts, String> {
        let number = |text: &str| match text.trim().replace('_', "").parse() {
            Ok(number) if (1..=NODES_MAX).contains(&number) => Ok(number),
            _ => Err(format!("`{text}` is no number of nodes: write 64, 4,16,64 or 1..8300")),
        };
        let mut counts = match text.split_once("..") {
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last)?);
                let doubled = std::iter::successors(Some(first), |&n| n.checked_mul(2));
                doubled.take_while(|&n| n < last).chain([last]).collect()
            }
            None => text.split(',').map(number).collect::<Result<Vec<u32>, String>>()?,
        };
        counts.sort_unstable();
        counts.dedup();
        Ok(Counts(counts))
    }
}

fn branching(text: &str) -> Result<Branching, String> {
    match text.parse() {
        _ if text == "binomial" => Ok(Branching::Binomial),
        Ok(fan_out) if fan_out > 0 => Ok(Branching::KAry(fan_out)),
        _ => Err("write a number from 1 on, or binomial".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_nodes() {
        let counts = |text: &str| text.parse::<Counts>().map(|counts| counts.0);
        assert_eq!(counts("64"), Ok(vec![64]));
        assert_eq!(counts("64,4,16,4"), Ok(vec![4, 16, 64]));
        assert_eq!(counts("1..10"), Ok(vec![1, 2, 4, 8, 10]));
        assert_eq!(counts("3..1_000"), Ok(vec![3, 6, 12, 24, 48, 96, 192, 384, 768, 1000]));
        for wrong in ["", "0", "x", "1..", "..5", "5,", "1..2..3"] {
            assert!(counts(wrong).is_err(), "{wrong}");
        }
    }
}
