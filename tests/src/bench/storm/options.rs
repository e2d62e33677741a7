//! What is measured, as the command line restricts it.

use std::path::PathBuf;

/// What `cargo xtask bench storm` understands.
pub(super) const HELP: &str = "\
cargo xtask bench storm [OPTION…]     with each LIST separated by commas
  --nodes LIST      numbers of nodes                      [1,2,4,8,16,32]
  --workload LIST   numpy, scipy.stats, pandas, pynamic, pynamic-mpi, launch, broadcast [all]
  --server LIST     slow-metadata, slow-link, quick       [slow-metadata,slow-link]
  --ways LIST       plain, headwater, headwater-recorded, floor [all]
  --processes N     Pynamic's processes on each node      [4]
  --rounds N        times that each is measured           [3]
  --divisor N       Pynamic's sizes are the paper's over N [4]
  --out DIR         where results go                      [target/bench/storm/results]";

/// The workloads, in the order of measuring.
pub(super) const WORKLOADS: [&str; 7] =
    ["numpy", "scipy.stats", "pandas", "pynamic", "pynamic-mpi", "launch", "broadcast"];
const WAYS: [&str; 4] = ["plain", "headwater", "headwater-recorded", "floor"];
const SERVERS: [&str; 3] = ["slow-metadata", "slow-link", "quick"];
/// One more node, the server, belongs to the cluster.
const NODES_MAX: usize = headwater_cluster::NODES_MAX - 1;

/// What is measured, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) nodes: Vec<usize>,
    pub(super) workloads: Vec<&'static str>,
    pub(super) servers: Vec<&'static str>,
    /// How programs are started, by their names in the results.
    pub(super) ways: Vec<&'static str>,
    /// Of Pynamic, on each node.
    pub(super) processes: usize,
    pub(super) rounds: usize,
    pub(super) divisor: usize,
    pub(super) out: PathBuf,
}

impl Options {
    /// From the words of the command line. `Err` says which is wrong, and what there is.
    pub(super) fn parse(words: &[String]) -> Result<Options, String> {
        let mut options = Options {
            nodes: vec![1, 2, 4, 8, 16, 32],
            workloads: WORKLOADS.to_vec(),
            servers: SERVERS[..2].to_vec(),
            ways: WAYS.to_vec(),
            processes: 4,
            rounds: 3,
            divisor: 4,
            out: crate::workspace().join("target/bench/storm/results"),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let value = words.next().map(String::as_str).ok_or_else(|| format!("{word} needs a value\n{HELP}"))?;
            match word.as_str() {
                "--nodes" => options.nodes = numbers(value)?,
                "--workload" => options.workloads = known(value, &WORKLOADS)?,
                "--server" => options.servers = known(value, &SERVERS)?,
                "--ways" => options.ways = known(value, &WAYS)?,
                "--processes" => options.processes = numbers(value)?[0],
                "--rounds" => options.rounds = numbers(value)?[0],
                "--divisor" => options.divisor = numbers(value)?[0],
                "--out" => options.out = PathBuf::from(value),
                other => return Err(format!("no option {other}\n{HELP}")),
            }
        }
        options.nodes.sort_unstable();
        Ok(options)
    }

    /// The most nodes.
    pub(super) fn nodes_max(&self) -> usize {
        *self.nodes.last().expect("a list has a number")
    }
}

fn numbers(list: &str) -> Result<Vec<usize>, String> {
    let number = |word: &str| word.parse().ok().filter(|number| (1..=NODES_MAX).contains(number));
    list.split(',').map(number).collect::<Option<_>>().ok_or_else(|| format!("{list}: expected 1 to {NODES_MAX}"))
}

fn known(list: &str, all: &[&'static str]) -> Result<Vec<&'static str>, String> {
    let find = |word: &str| all.iter().copied().find(|known| *known == word);
    let found: Option<_> = list.split(',').map(find).collect();
    found.ok_or_else(|| format!("{list}: there are {}", all.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(&line.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn restrictions() {
        let options = parse("--nodes 8,2 --workload numpy --server quick --rounds 1").unwrap();
        assert_eq!((options.nodes.as_slice(), options.nodes_max(), options.rounds), ([2, 8].as_slice(), 8, 1));
        assert_eq!(
            (options.workloads.as_slice(), options.servers.as_slice()),
            (["numpy"].as_slice(), ["quick"].as_slice())
        );
        assert_eq!(parse("").unwrap().workloads, WORKLOADS);
        for wrong in
            ["--nodes", "--nodes 0", "--nodes 250", "--nodes x", "--workload nump", "--size 3", "--server fast"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
