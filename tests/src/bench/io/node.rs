//! One node, four ranks, files that are in its page cache.

use std::process::Command;

use headwater_figures::text;

use super::Bench;
use super::mpi::Mpi;
use super::rounds::{Rounds, median, spread};
use super::run::{Job, Program, Variant, fill};
use crate::bench::{Report, Table};

const RANKS: usize = 4;
const SIZES: [u64; 4] = [4 << 20, 64 << 20, 256 << 20, 1 << 30];
const HEAD: [&str; 8] = [
    "bytes",
    "pattern",
    "as it is, ms",
    "library, ms",
    "by hand, ms",
    "library, times as fast (10 to 90 %)",
    "by hand, times as fast (10 to 90 %)",
    "operations together",
];

impl Bench<'_> {
    pub(super) fn node(&self, report: &mut Report) {
        for mpi in &self.mpis {
            report.heading(&format!("One node, {RANKS} ranks, files in the page cache: {}", mpi.name));
            let mut table = Table::new(HEAD);
            for program in Program::BOTH {
                let Some(binary) = self.compiled(mpi, program, report) else { continue };
                for bytes in SIZES.into_iter().filter(|bytes| *bytes <= self.options.bytes_max) {
                    match self.node_case(mpi, program, &binary, bytes) {
                        Ok(rounds) => rows(&mut table, program, bytes, &rounds),
                        Err(reason) => report.line(format!("({reason})\n")),
                    }
                }
            }
            report.table(&table);
        }
    }

    fn node_case(&self, mpi: &Mpi, program: Program, binary: &std::path::Path, bytes: u64) -> Result<Rounds, String> {
        println!("  {}, {program:?}, {}", mpi.name, text::bytes(bytes));
        let report = self.directory.join("report");
        let job = Job {
            mpi,
            program,
            binary,
            bytes,
            steps: 1,
            ranks: RANKS,
            hosts: None,
            directory: self.directory,
            report: &report,
        };
        fill(&self.directory.join("in"), program.file_bytes(bytes, 1))?;
        let mut rounds = Rounds::default();
        for _ in 0..self.options.rounds {
            let before = || {
                // Each writes a new file.
                let _ = std::fs::remove_file(self.directory.join("out"));
                Ok(())
            };
            rounds.once(
                &job,
                &[Variant::Plain, Variant::Library, Variant::Twin],
                &|name| Command::new(name),
                &before,
            )?;
        }
        Ok(rounds)
    }
}

fn rows(table: &mut Table, program: Program, bytes: u64, rounds: &Rounds) {
    for (pattern, name) in program.patterns().into_iter().enumerate() {
        let ms = |variant| median(rounds.milliseconds(variant, pattern), 1);
        let times = |variant| spread(rounds.speedup(variant, pattern));
        let together = if pattern == 0 { rounds.transformed().to_string() } else { String::new() };
        let all = [
            ms(Variant::Plain),
            ms(Variant::Library),
            ms(Variant::Twin),
            times(Variant::Library),
            times(Variant::Twin),
            together,
        ];
        table.row([text::bytes(bytes), name.to_owned()].into_iter().chain(all));
    }
}
