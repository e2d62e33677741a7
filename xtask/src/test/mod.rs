//! Everything that continuous integration runs, in one order, with one summary.

mod report;
mod steps;

use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::setup;
use crate::shell::Shell;
pub use report::Tally;
pub use steps::{SANITIZER_FLAGS, run_c};

/// What to run.
#[derive(Args)]
pub struct Options {
    /// Run this step alone; repeatable.
    #[arg(long, value_name = "STEP")]
    only: Vec<Step>,
    /// Leave out what takes minutes: loom and fuzzing.
    #[arg(long)]
    quick: bool,
    /// How long each decoder is fuzzed, in seconds.
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    fuzz_seconds: u64,
    /// How many seeds are simulated.
    #[arg(long, default_value_t = 2000, value_name = "N")]
    seeds: u64,
}

/// The steps, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    /// Formatting.
    Fmt,
    /// Compiler and clippy warnings are errors.
    Clippy,
    /// Documentation builds without warnings.
    Doc,
    /// Crate edges, file and function lengths, leftovers.
    Tidy,
    /// The C libraries and headers with all warnings as errors.
    Shim,
    /// The C code's tests under AddressSanitizer and UBSan.
    C,
    /// Unit, integration and documentation tests of every crate.
    Cargo,
    /// Every interleaving of the shared table's writer and readers.
    Loom,
    /// Simulated nodes with faults.
    Sim,
    /// Every decoder under libFuzzer.
    Fuzz,
}

impl Step {
    fn name(self) -> String {
        self.to_possible_value().expect("no step is hidden").get_name().to_owned()
    }

    fn run(self, shell: &Shell, options: &Options) -> Result<Tally> {
        match self {
            Step::Fmt => steps::fmt(shell),
            Step::Clippy => steps::clippy(shell),
            Step::Doc => steps::doc(shell),
            Step::Tidy => steps::tidy(shell),
            Step::Shim => steps::shim(shell),
            Step::C => steps::c(shell),
            Step::Cargo => steps::cargo(shell),
            Step::Loom => steps::loom(shell),
            Step::Sim => steps::sim(shell, options.seeds),
            Step::Fuzz => steps::fuzz(shell, options.fuzz_seconds),
        }
    }
}

/// Runs the steps; true if nothing failed. A step's failure does not keep the others from running.
pub fn run(shell: &Shell, options: &Options) -> Result<bool> {
    setup::run(shell)?;
    let mut done = Vec::new();
    for &step in Step::value_variants() {
        let slow = matches!(step, Step::Loom | Step::Fuzz);
        let wanted = if options.only.is_empty() { !(options.quick && slow) } else { options.only.contains(&step) };
        if wanted {
            let (tally, took) = run_step(shell, options, step);
            done.push((step.name(), tally, took));
        }
    }
    Ok(report::summary(&done))
}

fn run_step(shell: &Shell, options: &Options, step: Step) -> (Tally, Duration) {
    let name = step.name();
    let start = shell.begin(&name);
    let tally = step.run(shell, options).unwrap_or_else(|error| Tally {
        output: format!("{error:#}\n"),
        ..Tally::failed(format!("{name}; repeat: cargo xtask test --only {name}"))
    });
    shell.end(&name, start, tally.failed.is_empty());
    if !tally.failed.is_empty() {
        println!("{}", tally.output.trim_end());
    }
    (tally, start.elapsed())
}
