//! Everything that continuous integration runs, in one order, with one summary.

mod c_program;
mod report;
mod steps;

use std::thread;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};

pub use self::c_program::{SANITIZER_FLAGS, run_c};
pub use self::report::Tally;

use crate::shell::Shell;
use crate::{setup, side_by_side, suites};

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
    #[arg(long, default_value_t = 25, value_name = "SECONDS")]
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
    /// Links, command lines and made pages of the documents.
    Docs,
    /// The short form of other people's test suites.
    Suites,
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

    /// Minutes of computing that nobody waits for, and that nothing depends on.
    fn is_behind(self) -> bool {
        matches!(self, Step::Loom | Step::Sim | Step::Fuzz)
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
            Step::Docs => steps::docs(shell),
            Step::Suites => suites::test(shell),
            Step::Loom => steps::loom(shell),
            Step::Sim => steps::sim(shell, options.seeds),
            Step::Fuzz => steps::fuzz(shell, options.fuzz_seconds),
        }
    }
}

/// Runs the steps; true if nothing failed. A step's failure does not keep the others from running. What only computes
/// runs behind the others, whose tests wait for much.
pub fn run(shell: &Shell, options: &Options) -> Result<bool> {
    setup::run(shell)?;
    let is_wanted = |step: &Step| {
        let slow = matches!(step, Step::Loom | Step::Fuzz);
        if options.only.is_empty() { !(options.quick && slow) } else { options.only.contains(step) }
    };
    let wanted = Step::value_variants().iter().copied().filter(is_wanted);
    let (behind, before): (Vec<Step>, Vec<Step>) = wanted.partition(|step| step.is_behind());
    let run_all = |steps: &[Step]| -> Vec<_> { steps.iter().map(|&step| run_step(shell, options, step)).collect() };
    let done = thread::scope(|scope| {
        let behind = scope.spawn(|| {
            side_by_side::give_way();
            run_all(&behind)
        });
        let mut done = run_all(&before);
        done.extend(behind.join().expect("a step's failure is no panic"));
        done
    });
    Ok(report::summary(&done))
}

fn run_step(shell: &Shell, options: &Options, step: Step) -> (String, Tally, Duration) {
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
    (name, tally, start.elapsed())
}
