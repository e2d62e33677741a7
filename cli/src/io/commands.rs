//! The command lines of `headwater io`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use headwater_model::io::{Form, Pattern, Work};

use crate::options::headings::{MODEL, OUTPUT, WORKLOAD};
use crate::options::values::{number, number_from, parse_bytes};

/// What `headwater io predict --help` shows at the end.
const PREDICT_HELP: &str = "\
Examples:
  headwater io predict --bytes 256M --ranks 16 --nodes 4 --link 200mbit --server 800mbit
  headwater io predict --pattern gather+write --bytes 4G --ranks 64 --nodes 8 --measure /scratch --save here.toml
  headwater io predict --pattern read+send --rows --pieces 1024 --bytes 1G --ranks 16 --parameters here.toml

ORIGINAL is one rank that reads or writes for all, TOGETHER what --io makes of it. The model and its parameters are in \
docs/guide/mpi-io.md.";

/// What `headwater io report --help` shows at the end.
const REPORT_HELP: &str = "\
Examples:
  headwater run --io observe --io-report app.io -- mpirun -n 16 ./app
  headwater io report app.io --program ./app";

/// `headwater io`.
#[derive(Debug, Subcommand)]
pub enum IoCommand {
    /// Predict the time of I/O on one rank and on all together, and what --io would do
    #[command(after_help = PREDICT_HELP)]
    Predict(PredictOptions),
    /// Show what --io found and did, from the file that --io-report has named
    #[command(after_help = REPORT_HELP)]
    Report(ReportOptions),
}

/// Options of `headwater io predict`.
#[derive(Debug, Args)]
pub struct PredictOptions {
    /// read+scatter, read+send, gather+write or receive+write [default: all of them]
    #[arg(long, value_name = "PATTERN", value_parser = parse_pattern, help_heading = WORKLOAD)]
    pub pattern: Option<Pattern>,

    /// Bytes of the file that all ranks share, such as 256M
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, help_heading = WORKLOAD)]
    pub bytes: u64,

    /// Ranks of the program
    #[arg(long, value_name = "P", value_parser = number(1..=10_000_000),
          help_heading = WORKLOAD)]
    pub ranks: u32,

    /// Nodes on which they are
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number(1..=10_000_000),
          help_heading = WORKLOAD)]
    pub nodes: u32,

    /// The program reads or writes a row of a square of nodes after the other, through the same memory
    #[arg(long, help_heading = WORKLOAD)]
    pub rows: bool,

    /// Writing continues in the background, from a copy of the data
    #[arg(long, conflicts_with = "rows", help_heading = WORKLOAD)]
    pub copy: bool,

    /// Pieces of the file that each rank's part has: the lines of its block
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = number_from(1),
          help_heading = WORKLOAD)]
    pub pieces: u32,

    /// What a node's link carries, such as 200mbit or 100gbit
    #[arg(long, value_name = "RATE", value_parser = parse_rate, help_heading = MODEL)]
    pub link: Option<Rate>,

    /// The file server's rate for all nodes together; the link limits a node's share
    #[arg(long, value_name = "RATE", value_parser = parse_rate, help_heading = MODEL)]
    pub server: Option<Rate>,

    /// What operations cost here, as --save wrote it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = MODEL)]
    pub parameters: Option<PathBuf>,

    /// Measure what memory and files in this directory cost, for a second or two
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = MODEL)]
    pub measure: Option<PathBuf>,

    /// Write the parameters to this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = OUTPUT)]
    pub save: Option<PathBuf>,

    /// Draw both times, by the file's bytes
    #[arg(long, value_name = "FILE.svg", value_hint = ValueHint::FilePath, help_heading = OUTPUT)]
    pub plot: Option<PathBuf>,
}

/// Options of `headwater io report`.
#[derive(Debug, Args)]
pub struct ReportOptions {
    /// The program, to find source lines in its debug information
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub program: Option<PathBuf>,

    /// What --io-report has named
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub report: PathBuf,
}

/// Bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(pub f64);

impl PredictOptions {
    /// Returns the selected patterns, with a file of so many bytes.
    pub fn works(&self, bytes: f64) -> Vec<Work> {
        let form = match (self.rows, self.copy) {
            (true, _) => Form::NodeRows,
            (_, true) => Form::Copied,
            _ => Form::Whole,
        };
        let is_asked = |pattern: &Pattern| self.pattern.is_none_or(|asked| asked == *pattern);
        let patterns = Pattern::ALL.into_iter().filter(is_asked);
        let nodes = self.nodes.min(self.ranks);
        patterns.map(|pattern| Work { pattern, form, bytes, ranks: self.ranks, nodes, pieces: self.pieces }).collect()
    }
}

fn parse_pattern(text: &str) -> Result<Pattern, String> {
    let named = Pattern::ALL.into_iter().find(|pattern| pattern.name() == text);
    named.ok_or_else(|| format!("write one of {}", Pattern::ALL.map(Pattern::name).join(", ")))
}

fn parse_rate(text: &str) -> Result<Rate, String> {
    let lower = text.to_ascii_lowercase();
    let split = lower.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(lower.len());
    let bits = match &lower[split..] {
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        _ => return Err("write a rate as 200mbit or 100gbit".into()),
    };
    let number: f64 = lower[..split].trim().parse().map_err(|_| "write a rate as 200mbit or 100gbit")?;
    let rate = number * bits / 8.0;
    (rate.is_finite() && rate >= 1.0).then_some(Rate(rate)).ok_or_else(|| "the rate must be above zero".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_patterns() {
        assert_eq!(parse_rate("200mbit"), Ok(Rate(25e6)));
        assert_eq!(parse_rate("1.6 Gbit"), Ok(Rate(2e8)));
        for wrong in ["", "200", "mbit", "-1mbit", "200mb", "0kbit"] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_pattern("gather+write"), Ok(Pattern::GatherWrite));
        assert!(parse_pattern("gather").unwrap_err().contains("read+scatter"));
    }
}
