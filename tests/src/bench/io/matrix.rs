//! Never slower: all sizes, patterns and MPIs on one node, each operation in pairs with the library and past it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use headwater_figures::text;

use super::Bench;
use super::mpi::Mpi;
use super::run::{fill, library, transformed};
use crate::bench::statistics::Sample;
use crate::bench::{Report, Table};

const SOURCE: &str = "bench/mpiio_pairs.c";
const PATTERNS: [&str; 5] = ["read+scatter", "gather+write", "read+send", "receive+write", "read+bcast"];
const RANKS_MAX: usize = 4;
/// From 1 KB on, each four times the last.
const SIZES: usize = 11;
/// A case has at least so many pairs, which limit the error of a median; and no more once this time is over.
const PAIRS_MIN: usize = 21;
const PAIRS_MAX: usize = 801;
const CASE_TIME_MAX: Duration = Duration::from_secs(4);
/// The least ratio of a case.
const BOUND: f64 = 0.98;
/// A directory in memory, so that no disk's speed counts.
const PLACE: &str = "/dev/shm";

/// The results of a case.
struct Pairs {
    past_ms: Sample,
    /// Past the library to with it.
    ratio: Sample,
    transformed: u64,
}

impl Bench<'_> {
    pub(super) fn matrix(&self, report: &mut Report) {
        report.heading("Never slower");
        report.line(format!(
            "{RANKS_MAX} ranks on one node, of MPICH, whose ranks wait without yielding, no more than processors; files in \
             {PLACE}. Each operation is done by the program's calls, which the \
             library interposes, and past it, by the functions of MPI's and the C library themselves; in pairs \
             within one run, and in turn. Ratios are of the time past the library to that with it; the bound is the one that their \
             median is above with 95 % certainty, by order statistics (the sign test). Target: {BOUND}.\n"
        ));
        let mut table =
            Table::new(["MPI", "bytes", "pattern", "pairs", "past it, ms", "median ratio", "bound", "together"]);
        let mut below = Vec::new();
        for mpi in self.mpis.iter().filter(|mpi| library(mpi).is_some()) {
            let binary = match mpi.compile(SOURCE, self.directory) {
                Ok(binary) => binary,
                Err(reason) => {
                    report.line(format!("({}: {reason})\n", mpi.name));
                    continue;
                }
            };
            let sizes = (0..SIZES).map(|step| 1024_u64 << (2 * step));
            for bytes in sizes.filter(|bytes| *bytes <= self.options.bytes_max) {
                for pattern in PATTERNS {
                    println!("  {}, {}, {pattern}", mpi.name, text::bytes(bytes));
                    let pairs = match self.pairs(mpi, &binary, pattern, bytes) {
                        Ok(pairs) => pairs,
                        Err(reason) => {
                            report.line(format!("({reason})\n"));
                            continue;
                        }
                    };
                    let bound = pairs.ratio.median_bound();
                    if bound.is_none_or(|bound| bound < BOUND) {
                        below.push(format!("{}, {}, {pattern}", mpi.name, text::bytes(bytes)));
                    }
                    table.row([
                        mpi.name.to_owned(),
                        text::bytes(bytes),
                        pattern.to_owned(),
                        pairs.ratio.count().to_string(),
                        format!("{:.3}", pairs.past_ms.median()),
                        format!("{:.3}", pairs.ratio.median()),
                        bound.map_or_else(|| "-".into(), |bound| format!("{bound:.3}")),
                        pairs.transformed.to_string(),
                    ]);
                }
            }
        }
        report.table(&table);
        match below.is_empty() {
            true => report.line(format!("All bounds are at least {BOUND}.\n")),
            false => report.line(format!("Below {BOUND}: {}.\n", below.join("; "))),
        }
    }

    fn pairs(&self, mpi: &Mpi, binary: &Path, pattern: &str, bytes: u64) -> Result<Pairs, String> {
        let scratch = tempfile::Builder::new().prefix("headwater-bench-").tempdir_in(PLACE);
        let scratch = scratch.map_err(|error| format!("{PLACE}: {error}"))?;
        fill(&scratch.path().join("in"), bytes)?;
        let done = scratch.path().join("report");
        let mut command = Command::new("timeout");
        Mpi::prepare(&mut command);
        command.args(["-k", "5", "600"]).args(mpi.args(ranks(mpi), None)).stdin(Stdio::null()).arg("env");
        command.args(library(mpi).map(|library| format!("LD_PRELOAD={}", library.display())));
        command.arg("HEADWATER_IO=auto").arg(format!("HEADWATER_IO_REPORT={}", done.display()));
        let pairs_min = self.options.rounds.max(PAIRS_MIN);
        command.arg(binary).arg(pattern).arg(bytes.to_string()).arg(pairs_min.to_string());
        command.arg(PAIRS_MAX.to_string()).arg(CASE_TIME_MAX.as_secs().to_string()).arg(scratch.path());
        let output = command.output().map_err(|error| error.to_string())?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let pairs: Vec<(f64, f64)> = printed.split_whitespace().filter_map(pair).collect();
        if !output.status.success() || pairs.is_empty() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{}, {pattern}, {}: {}\n{complaint}", mpi.name, text::bytes(bytes), output.status));
        }
        Ok(Pairs {
            past_ms: Sample::new(pairs.iter().map(|(past, _)| past * 1e3).collect()),
            ratio: Sample::new(pairs.iter().map(|(past, with)| past / with).collect()),
            transformed: transformed(&fs::read_to_string(&done).unwrap_or_default()),
        })
    }
}

fn ranks(mpi: &Mpi) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if mpi.name.starts_with("openmpi") { RANKS_MAX } else { processors.clamp(2, RANKS_MAX) }
}

/// The seconds of a pair: past the library, and with it.
fn pair(word: &str) -> Option<(f64, f64)> {
    let (past, with) = word.strip_prefix("pair=")?.split_once(',')?;
    Some((past.parse().ok()?, with.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_what_is_printed() {
        assert_eq!(pair("pair=0.5,0.25"), Some((0.5, 0.25)));
        assert_eq!(pair("pair=0.5"), None);
        assert_eq!(pair("headwater:"), None);
    }
}
