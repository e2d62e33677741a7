//! Never slower: all sizes, patterns and MPIs on one node, in pairs of a plain run and one with the library.

use std::process::Command;
use std::time::{Duration, Instant};

use super::Bench;
use super::mpi::Mpi;
use super::rounds::{Rounds, median, size};
use super::run::{Job, Program, Way, fill, library};
use crate::bench::{Report, Table};

const RANKS: usize = 4;
/// From 1 KB on, each four times the last.
const SIZES: usize = 11;
/// A run repeats its operation for about so many bytes, so that its time can be measured.
const BYTES_PER_RUN: u64 = 32 << 20;
const STEPS_MAX: u64 = 200;
/// A case has at least so many pairs, which bound a median; and no more once this time is over.
const PAIRS_MIN: usize = 11;
const CASE_TIME_MAX: Duration = Duration::from_secs(40);
/// What a case should not fall below.
const BOUND: f64 = 0.95;

impl Bench<'_> {
    pub(super) fn matrix(&self, report: &mut Report) {
        report.heading("Never slower");
        report.line(format!(
            "{RANKS} ranks on one node, files in the page cache. Ratios are of a plain run to one with the library, in \
             interleaved pairs; the bound is the one that their median is above with 95 % certainty, by order \
             statistics (the sign test). Target: {BOUND}.\n"
        ));
        let mut table =
            Table::new(["MPI", "bytes", "pattern", "pairs", "plain, ms", "median ratio", "bound", "together"]);
        let mut below = Vec::new();
        for mpi in self.mpis.iter().filter(|mpi| library(mpi).is_some()) {
            for program in Program::ALL {
                let Some(binary) = self.compiled(mpi, program, report) else { continue };
                let sizes = (0..SIZES).map(|step| 1024_u64 << (2 * step));
                for bytes in sizes.filter(|bytes| *bytes <= self.options.bytes_max) {
                    let rounds = match self.pairs(mpi, program, &binary, bytes) {
                        Ok(rounds) => rounds,
                        Err(reason) => {
                            report.line(format!("({reason})\n"));
                            continue;
                        }
                    };
                    for (pattern, name) in program.patterns().into_iter().enumerate() {
                        let ratio = rounds.speedup(Way::Library, pattern);
                        let bound = ratio.as_ref().and_then(|ratio| ratio.median_bound());
                        if bound.is_none_or(|bound| bound < BOUND) {
                            below.push(format!("{}, {}, {name}", mpi.name, size(bytes)));
                        }
                        table.row([
                            mpi.name.to_owned(),
                            size(bytes),
                            name.to_owned(),
                            rounds.count().to_string(),
                            median(rounds.milliseconds(Way::Plain, pattern), 2),
                            median(ratio, 3),
                            bound.map_or_else(|| "-".into(), |bound| format!("{bound:.3}")),
                            if pattern == 0 { rounds.transformed().to_string() } else { String::new() },
                        ]);
                    }
                }
            }
        }
        report.table(&table);
        match below.is_empty() {
            true => report.line(format!("All bounds are at least {BOUND}.\n")),
            false => report.line(format!("Below {BOUND}: {}.\n", below.join("; "))),
        }
    }

    fn pairs(&self, mpi: &Mpi, program: Program, binary: &std::path::Path, bytes: u64) -> Result<Rounds, String> {
        println!("  {}, {program:?}, {}", mpi.name, size(bytes));
        let steps = (BYTES_PER_RUN / bytes).clamp(1, STEPS_MAX);
        let report = self.place.join("report");
        let job = Job {
            mpi,
            program,
            binary,
            bytes,
            steps,
            ranks: RANKS,
            hosts: None,
            directory: self.place,
            report: &report,
        };
        fill(&self.place.join("in"), program.file_bytes(bytes, steps))?;
        let (mut rounds, started) = (Rounds::default(), Instant::now());
        let pairs = self.options.rounds.max(PAIRS_MIN);
        while rounds.count() < PAIRS_MIN || (rounds.count() < pairs && started.elapsed() < CASE_TIME_MAX) {
            let before = || {
                let _ = std::fs::remove_file(self.place.join("out"));
                Ok(())
            };
            rounds.once(&job, &[Way::Plain, Way::Library], &|name| Command::new(name), &before)?;
        }
        Ok(rounds)
    }
}
