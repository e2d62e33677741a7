//! Everything that continuous integration runs, in one order, with one summary.

mod c_programs;
mod c_tests;
mod on;
mod options;
mod report;
mod room;
mod steps;

use std::thread;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;

pub use self::c_tests::CTests;
pub use self::options::Options;
pub use self::report::Tally;

use self::options::Step;
use crate::setup::Purpose;
use crate::shell::Shell;
use crate::{setup, side_by_side, suites};

impl Step {
    /// Minutes of computing on which no other step depends.
    fn is_behind(self) -> bool {
        matches!(self, Step::On | Step::Loom | Step::Sim | Step::Fuzz)
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
            Step::On => on::by_turn(shell),
            Step::Loom => steps::loom(shell),
            Step::Sim => steps::sim(shell, options.seeds),
            Step::Fuzz => steps::fuzz(shell, options.fuzz_seconds),
        }
    }
}

/// Runs the steps. Returns true if nothing failed. A step's failure does not prevent the others. Steps that only
/// compute run behind the others, whose tests wait for much.
pub fn run(shell: &Shell, options: &Options) -> Result<bool> {
    room::warn_if_short();
    setup::run(shell, Purpose::All)?;
    if !options.on.is_empty() {
        return on::run(shell, options);
    }
    let is_wanted = |step: &Step| {
        let slow = matches!(step, Step::On | Step::Loom | Step::Fuzz);
        if options.only.is_empty() { !(options.quick && slow) } else { options.only.contains(step) }
    };
    let wanted = Step::value_variants().iter().copied().filter(is_wanted);
    let (behind, before): (Vec<Step>, Vec<Step>) = wanted.partition(|step| step.is_behind());
    let run_all = |steps: &[Step]| -> Vec<_> { steps.iter().map(|&step| run_step(shell, options, step)).collect() };
    let done = thread::scope(|scope| {
        let behind = scope.spawn(|| {
            side_by_side::lower_priority();
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
        if let Some(why) = room::explanation() {
            println!("{why}");
        }
    }
    (name, tally, start.elapsed())
}
