//! Generated programs: each rank sees the same with and without the library.
//!
//! A program follows from its seed and from its job, which has the `IN_ONE` seeds of one block. Seeds are those of the
//! clock, and one block that is always the same. `HEADWATER_TEST_SEED=N` begins with another one, and
//! `HEADWATER_TEST_PROGRAMS=N` runs so many.

mod generate;
mod program;
mod random;
mod rules;
mod run;
mod shrink;
mod touches;
mod types;

use std::fmt::Write;
use std::time::{Duration, Instant, SystemTime};

use headwater_tests::harness::mpi::{Library, Mpi};
use headwater_tests::harness::skipped;

use crate::report::transformed;
use generate::Setting;
use program::{Plan, Program};
use rules::lawful;
use run::{Care, Difference, Ground};

/// Programs of a job.
const IN_ONE: u64 = 50;
/// How long new seeds are run with each MPI.
const TIME_MAX: Duration = Duration::from_secs(12);
const LONG: Duration = Duration::from_secs(1 << 24);
/// So many bytes of what is looked at have a line of their own where a difference is shown.
const CHUNK: i64 = 512;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// What all programs of a block have in common, on one node.
fn setting(block: u64, mpi: &Mpi) -> (Setting, Vec<(&'static str, &'static str)>) {
    // Ranks of MPICH wait without yielding.
    let most = if mpi.is_open_mpi() { [2, 3, 4, 2, 6] } else { [2, 2, 3, 2, 4] };
    let ranks_max = most[(block % 5) as usize];
    let variables = match block % 7 {
        5 => vec![("HEADWATER_IO", "verify")],
        _ => vec![],
    };
    (Setting { ranks_max, has_threads: block % 6 == 4, is_apart: false }, variables)
}

fn made(seeds: impl Iterator<Item = u64>, setting: &Setting) -> Vec<(u64, Program)> {
    seeds.map(|seed| (seed, lawful(&generate::program(seed, setting)))).collect()
}

/// Says what differs, as small as it was found.
fn explained(ground: &Ground, seed: u64, first: Difference, setting: &Setting) -> String {
    let whole = generate::program(seed, setting);
    let mut text = format!("seed {seed}, {}, {} ranks: {first:?}\n", ground.mpi.name, ground.ranks);
    let again = format!("HEADWATER_TEST_SEED={seed} HEADWATER_TEST_PROGRAMS=1 cargo test -p headwater-tests sequences");
    writeln!(text, "again: {again}").unwrap();
    if !ground.is_steady(seed, &lawful(&whole)) {
        return text + "two plain runs of it differ: the generated program has no single result\n";
    }
    let alone = ground.judge(&[(seed, lawful(&whole))], Care::default());
    if alone.differences.is_empty() {
        let first = seed / IN_ONE * IN_ONE;
        let many = seed - first + 1;
        return text + &format!("only behind others: HEADWATER_TEST_SEED={first} HEADWATER_TEST_PROGRAMS={many}\n");
    }
    let (small, _) = shrink::shrink(ground, seed, &whole);
    let small = lawful(&small);
    let care = Care { chunk: CHUNK, is_quick: true };
    let difference = ground.judge(&[(seed, small.clone())], care).differences.remove(&seed);
    text + &format!("smallest: {difference:?}\n{}", Plan::text(seed, &small))
}

/// Runs some seeds of a block; how many operations were transformed, and what differs.
fn run(ground: &Ground, setting: &Setting, seeds: std::ops::Range<u64>) -> (u64, Vec<(u64, Difference)>) {
    let judged = ground.judge(&made(seeds, setting), Care::default());
    let operations = judged.reports.iter().map(|report| transformed(report)).sum();
    (operations, judged.differences.into_iter().collect())
}

/// Blocks from a seed on, until the time or the number of programs is over. `is_survey`: also behind a difference.
fn run_from(mpi: &Mpi, first: u64, programs: u64, time: Duration, is_survey: bool) -> u64 {
    let end = Instant::now() + time;
    let last = first.saturating_add(programs);
    let (mut from, mut operations) = (first, 0);
    let mut failures = vec![];
    while from < last && Instant::now() < end && (is_survey || failures.is_empty()) {
        let (setting, variables) = setting(from / IN_ONE, mpi);
        let library = Library::find(mpi).unwrap();
        let library = variables.iter().fold(library, |library, (name, value)| library.with(name, value));
        let ground = Ground { mpi, ranks: setting.ranks_max, library: &library, nodes: None };
        let to = ((from / IN_ONE + 1) * IN_ONE).min(last);
        let (transformed, different) = run(&ground, &setting, from..to);
        operations += transformed;
        from = to;
        different.iter().for_each(|(seed, difference)| println!("{} seed {seed}: {difference:?}", mpi.name));
        let is_first = failures.is_empty();
        failures.extend(different.iter().map(|(seed, _)| *seed));
        if let (Some((seed, difference)), true) = (different.into_iter().next(), is_first) {
            println!("{}", explained(&ground, seed, difference, &setting));
        }
    }
    println!("{}: seeds {first} to {from}, {operations} operations transformed", mpi.name);
    assert!(failures.is_empty(), "programs of the seeds {failures:?} differ with the library");
    operations
}

/// A seed that nobody has tried.
fn new_seed() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock after 1970");
    since.as_millis() as u64 / IN_ONE * IN_ONE
}

fn generated(mpi: &Mpi) {
    if let Err(reason) = Library::find(mpi) {
        return skipped(reason);
    }
    let (seed, programs) = (number("HEADWATER_TEST_SEED"), number("HEADWATER_TEST_PROGRAMS"));
    if seed.is_some() || programs.is_some() {
        run_from(mpi, seed.unwrap_or_else(new_seed), programs.unwrap_or(IN_ONE), LONG, true);
        return;
    }
    assert!(run_from(mpi, 0, IN_ONE, LONG, false) > 0, "nothing was transformed");
    run_from(mpi, new_seed(), u64::MAX, TIME_MAX, false);
}

crate::for_each_mpi!(generated);
