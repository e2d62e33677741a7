//! Other people's test suites: each is run plain and by Headwater, with its own files in the scope, and the outcome of
//! every single test is compared. `table.rs` defines the suites, `explained.txt` lists the differences that must be.

mod compare;
mod debian;
mod explained;
mod mpi4py;
mod mpich;
mod options;
mod outcomes;
mod perl;
mod python;
mod report;
mod stress;
mod table;
mod via;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::ValueEnum;

pub use self::options::Options;

use self::report::Report;
use self::table::{SUITES, Suite};
use self::via::Via;
use crate::setup::Purpose;
use crate::shell::Shell;
use crate::test::Tally;
use crate::{dist, setup};

/// The directory where suites are unpacked, and their tests run.
const WORK: &str = "target/suites";

/// Runs the suites and prints what differs, and a table in Markdown; true if every difference is explained.
pub fn run(shell: &Shell, options: &Options) -> Result<bool> {
    setup::run(shell, Purpose::All)?;
    dist::run(shell)?;
    let unknown = options.only.iter().find(|only| !SUITES.iter().any(|suite| is_of(only, suite.name)));
    if let Some(unknown) = unknown {
        let names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        bail!("no suite is called {unknown}; there are {}", names.join(", "));
    }
    let mut reports = Vec::new();
    for suite in SUITES.iter().filter(|suite| is_wanted(options, suite)) {
        let start = shell.begin(suite.name);
        let report = run_suite(shell, suite, options);
        shell.end(suite.name, start, report.is_ok_and_explained());
        print!("{}", report.details());
        reports.push(report);
    }
    println!("\n{}", report::markdown(&reports));
    Ok(reports.iter().all(Report::is_ok_and_explained))
}

/// The short form, as a step of the tests.
pub fn test(shell: &Shell) -> Result<Tally> {
    dist::run(shell)?;
    let options = Options { only: Vec::new(), via: Vec::new(), short: true };
    let mut tally = Tally::default();
    for suite in SUITES.iter().filter(|suite| is_wanted(&options, suite)) {
        tally.add(run_suite(shell, suite, &options).tally());
    }
    Ok(tally)
}

fn is_of(only: &str, suite: &str) -> bool {
    only.split(':').next() == Some(suite)
}

fn is_wanted(options: &Options, suite: &Suite) -> bool {
    let is_named = options.only.is_empty() || options.only.iter().any(|only| is_of(only, suite.name));
    is_named && !(options.short && suite.short.is_empty())
}

fn run_suite(shell: &Shell, suite: &'static Suite, options: &Options) -> Report {
    let mut report = Report::new(suite.name, suite.title);
    if let Err(error) = run_units(shell, suite, options, &mut report) {
        report.missing = Some(format!("{error:#}"));
    }
    report
}

fn run_units(shell: &Shell, suite: &'static Suite, options: &Options, report: &mut Report) -> Result<()> {
    let directory = shell.path(WORK).join(suite.name);
    std::fs::create_dir_all(directory.join("tmp"))?;
    std::fs::create_dir_all(directory.join("log"))?;
    (suite.prepare)(shell, &directory)?;
    let units = units(suite, options, (suite.units)(&directory)?);
    if units.is_empty() {
        bail!("none of its units is selected");
    }
    let vias = if options.via.is_empty() { Via::value_variants() } else { &options.via };
    let runner = compare::Runner { shell, suite, directory: PathBuf::from(&directory) };
    for unit in units {
        let start = Instant::now();
        let compared = runner.unit(&unit, vias)?;
        if !options.short {
            let (tests, differ) = (compared.tests, compared.differences.len());
            println!("    {unit:<44} {tests:>5} tests, {differ} differ {:>5} s", start.elapsed().as_secs());
        }
        report.add(&unit, compared);
    }
    Ok(())
}

/// The selected ones among all units.
fn units(suite: &Suite, options: &Options, all: Vec<String>) -> Vec<String> {
    let named: Vec<&str> = options.only.iter().filter_map(|only| only.split_once(':')).map(|(_, unit)| unit).collect();
    let is_wanted = |unit: &&String| {
        (named.is_empty() || named.contains(&unit.as_str())) && (!options.short || suite.short.contains(&unit.as_str()))
    };
    all.iter().filter(is_wanted).cloned().collect()
}
