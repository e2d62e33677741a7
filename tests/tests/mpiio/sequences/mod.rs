//! Generated programs: each rank sees the same with and without the library.
//!
//! A program follows from its seed and from its job, which has the `IN_ONE` seeds of one block. Seeds are those of the
//! clock, and one block that is always the same. `HEADWATER_TEST_SEED=N` begins with another one, and
//! `HEADWATER_TEST_PROGRAMS=N` runs so many.

mod generate;
mod patterns;
mod program;
mod random;
mod rules;
mod run;
mod shrink;
mod touches;
mod types;

use std::time::{Duration, Instant, SystemTime};

use headwater_tests::harness::mpi::{Library, Mpi};
use headwater_tests::harness::services::Ssh;
use headwater_tests::harness::skipped;

use crate::nodes::Nodes;
use crate::report::transformed;
use generate::Setting;
use program::Plan;
use rules::lawful;
use run::{Care, Difference, Ground, Numbered, OnNodes};

/// Programs of a job.
const IN_ONE: u64 = 50;
/// The block that is always run: with three ranks, and interleaved parts of a matrix whose rows are longer than a page.
const FIXED: u64 = IN_ONE;
/// Plans that differed or hung once, whatever programs are made today.
const REGRESSIONS: [&str; 5] = [
    include_str!("regressions/asked_while_it_writes.plan"),
    include_str!("regressions/interleaved_blocks.plan"),
    include_str!("regressions/queried_requests.plan"),
    include_str!("regressions/refused_calls.plan"),
    include_str!("regressions/short_persistent.plan"),
];
/// The most ranks of these.
const REGRESSION_RANKS: usize = 3;
/// How long new seeds are run with each MPI.
const TIME_MAX: Duration = Duration::from_secs(12);
const NODES_MAX: usize = 3;
/// Without an end.
const LONG: Duration = Duration::from_secs(1 << 24);
/// So many bytes of an inspection have a line of their own where a difference is shown.
const CHUNK: i64 = 512;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// The shape of a block's job.
struct Job {
    setting: Setting,
    /// How many nodes its ranks are on.
    nodes: usize,
    variables: Vec<(&'static str, &'static str)>,
    care: Care,
}

impl Job {
    fn of(block: u64, mpi: &Mpi, is_on_nodes: bool) -> Job {
        // Ranks of MPICH wait without yielding.
        let most = if mpi.is_open_mpi() { [2, 3, 4, 2, 6] } else { [2, 3, 2, 2, 4] };
        let mut variables = match (block % 7, is_on_nodes) {
            (5, false) => vec![("HEADWATER_IO", "verify")],
            (6, false) => vec![("HEADWATER_IO_MODEL", "measured")],
            (_, true) => vec![("HEADWATER_IO_EVERYWHERE", "yes")],
            _ => vec![],
        };
        // A build for tests takes pages for larger ones; others don't know the variable.
        match block % 9 {
            2 | 5 => variables.push(("HEADWATER_TEST_PAGE_BYTES", "16384")),
            3 | 8 => variables.push(("HEADWATER_TEST_PAGE_BYTES", "65536")),
            _ => {}
        }
        let setting = match is_on_nodes {
            false => Setting { ranks_max: most[(block % 5) as usize], has_threads: block % 6 == 4, is_apart: false },
            true => Setting { ranks_max: [3, 4, 6][(block % 3) as usize], has_threads: false, is_apart: true },
        };
        let care = Care { pauses: if block % 4 == 3 { block } else { 0 }, ..Care::default() };
        Job { setting, care, nodes: if is_on_nodes { 2 + (block % 2) as usize } else { 1 }, variables }
    }
}

fn made(seed: u64, setting: &Setting) -> Numbered {
    (seed, Plan::text(seed, &lawful(&generate::program(seed, setting))))
}

/// Prints the difference, as small as it was found.
fn explained(ground: &Ground, seed: u64, setting: &Setting, care: Care) -> String {
    let alone = ground.judge(&[made(seed, setting)], care);
    if alone.differences.is_empty() {
        let first = seed / IN_ONE * IN_ONE;
        return format!("only behind others: HEADWATER_TEST_SEED={first} HEADWATER_TEST_PROGRAMS={}", seed - first + 1);
    }
    let care = Care { is_quick: true, ..care };
    let small = shrink::shrink(ground, seed, &generate::program(seed, setting), care);
    let small = (seed, Plan::text(seed, &lawful(&small)));
    let care = Care { chunk: CHUNK, ..care };
    let difference = ground.judge(std::slice::from_ref(&small), care).differences.remove(&seed);
    let difference = difference.map(|difference| difference.to_string()).unwrap_or_default();
    format!("the smallest: {difference}\n{}", small.1)
}

/// Runs some seeds of a block; how many operations were transformed, and what differs.
fn run(ground: &Ground, job: &Job, seeds: std::ops::Range<u64>) -> (u64, Vec<(u64, Difference)>) {
    let judged = ground.judge(&seeds.map(|seed| made(seed, &job.setting)).collect::<Vec<_>>(), job.care);
    let operations = judged.reports.iter().map(|report| transformed(report)).sum();
    (operations, judged.differences.into_iter().collect())
}

/// Which seeds are run.
struct Seeds {
    first: u64,
    count: u64,
    /// New programs are begun for so long.
    time: Duration,
    /// Continues behind a difference.
    is_survey: bool,
}

/// Runs blocks; how many operations were transformed.
fn run_all(mpi: &Mpi, seeds: &Seeds, nodes: Option<(&Nodes, &Ssh)>) -> u64 {
    let end = Instant::now() + seeds.time;
    let last = seeds.first.saturating_add(seeds.count);
    let (mut from, mut operations) = (seeds.first, 0);
    let mut failures = vec![];
    while from < last && Instant::now() < end && (seeds.is_survey || failures.is_empty()) {
        let job = Job::of(from / IN_ONE, mpi, nodes.is_some());
        let library = Library::find(mpi).unwrap();
        let library = job.variables.iter().fold(library, |library, (name, value)| library.with(name, value));
        let nodes = nodes.map(|(nodes, ssh)| OnNodes { nodes, ssh, count: job.nodes });
        let ground = Ground { mpi, ranks: job.setting.ranks_max, library: &library, nodes };
        let to = ((from / IN_ONE + 1) * IN_ONE).min(last);
        let (transformed, different) = run(&ground, &job, from..to);
        operations += transformed;
        for (seed, difference) in different {
            println!("{} seed {seed}, {} ranks on {} nodes: {difference}", mpi.name, ground.ranks, job.nodes);
            println!("again: HEADWATER_TEST_SEED={seed} HEADWATER_TEST_PROGRAMS=1 and the same test");
            if !ground.is_steady(&made(seed, &job.setting)) {
                println!("two plain runs of it differ: the program has no single result");
                continue;
            }
            if failures.is_empty() {
                println!("{}", explained(&ground, seed, &job.setting, job.care));
            }
            failures.push(seed);
        }
        from = to;
    }
    println!("{}: seeds {} to {from}, {operations} operations transformed", mpi.name, seeds.first);
    assert!(failures.is_empty(), "programs of the seeds {failures:?} differ with the library");
    operations
}

/// A seed that was not tried before.
fn new_seed() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock after 1970");
    since.as_millis() as u64 / IN_ONE * IN_ONE
}

/// The seeds that the environment names.
fn named() -> Option<Seeds> {
    let (seed, programs) = (number("HEADWATER_TEST_SEED"), number("HEADWATER_TEST_PROGRAMS"));
    (seed.is_some() || programs.is_some()).then(|| Seeds {
        first: seed.unwrap_or_else(new_seed),
        count: programs.unwrap_or(IN_ONE),
        time: LONG,
        is_survey: true,
    })
}

fn generated(mpi: &Mpi) {
    if let Err(reason) = Library::find(mpi) {
        return skipped(reason);
    }
    if let Some(seeds) = named() {
        run_all(mpi, &seeds, None);
        return;
    }
    let fixed = Seeds { first: FIXED, count: IN_ONE, time: LONG, is_survey: false };
    assert!(run_all(mpi, &fixed, None) > 0, "nothing was transformed");
    run_all(mpi, &Seeds { first: new_seed(), count: u64::MAX, time: TIME_MAX, is_survey: false }, None);
}

/// The same with ranks on several nodes.
fn on_nodes(mpi: &Mpi) {
    if let Err(reason) = Library::find(mpi) {
        return skipped(reason);
    }
    let Some(nodes) = Nodes::up(NODES_MAX, mpi) else { return };
    let Ok(ssh) = nodes.ssh().map_err(skipped) else { return };
    let seeds = named().unwrap_or(Seeds { first: FIXED, count: IN_ONE, time: LONG, is_survey: false });
    assert!(run_all(mpi, &seeds, Some((&nodes, &ssh))) > 0, "nothing was transformed");
}

/// Plans begin with their numbers.
fn rest(mpi: &Mpi) {
    let library = match Library::find(mpi) {
        Ok(library) => library,
        Err(reason) => return skipped(reason),
    };
    let numbered = |text: &str| {
        let number = text.split_whitespace().nth(1).and_then(|number| number.parse().ok());
        (number.expect("a plan begins with `program` and its number"), text.to_owned())
    };
    let ground = Ground { mpi, ranks: REGRESSION_RANKS, library: &library, nodes: None };
    let judged = ground.judge(&REGRESSIONS.map(numbered), Care::default());
    for (number, difference) in &judged.differences {
        println!("{} program {number}: {difference}", mpi.name);
    }
    assert!(judged.differences.is_empty(), "programs of regressions differ");
}

crate::for_each_mpi!(generated);

mod regression_plans {
    crate::for_each_mpi!(super::rest);
}

#[test]
fn open_mpi_on_nodes() {
    crate::with_first(crate::OPEN_MPI, on_nodes);
}

#[test]
fn others_on_nodes() {
    if crate::all() || named().is_some() {
        crate::with_mpi("openmpi5", on_nodes);
        crate::with_mpi("openmpi6", on_nodes);
        crate::with_mpi("mpich4", on_nodes);
        crate::with_mpi("mpich5", on_nodes);
    }
}
