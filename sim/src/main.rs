//! Runs seeds: `--seeds N` for 0 to N-1, `--seed S` for one with a trace of all that happens. Each is
//! run calm, where nothing fails, and stormy, where everything may.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use headwater_sim::{Options, Summary, Violation, run};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| arguments.iter().find_map(|a| a.strip_prefix(name)?.strip_prefix('=')?.parse().ok());
    let result = match (number("--seed"), number("--seeds")) {
        (Some(seed), None) => run_both(seed, true),
        (None, Some(seeds)) => run_many(seeds),
        _ => {
            eprintln!("usage: headwater-sim --seed=S | --seeds=N");
            return ExitCode::FAILURE;
        }
    };
    match result {
        Ok(sum) => {
            println!(
                "{} requests of {} nodes: {} fallbacks, {} faults, {} messages, {} evictions",
                sum.requests, sum.nodes, sum.fallbacks, sum.faults, sum.messages, sum.evictions
            );
            ExitCode::SUCCESS
        }
        Err(violation) => {
            eprintln!("{violation}\nrepeat: cargo xtask sim --seed {}", violation.seed);
            ExitCode::FAILURE
        }
    }
}

/// Runs the seeds below `seeds` on all processors; the violation with the smallest seed that was found.
fn run_many(seeds: u64) -> Result<Summary, Violation> {
    let next = AtomicU64::new(0);
    let result = Mutex::new(Ok(Summary::default()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        break;
                    }
                    let one = run_both(seed, false);
                    let mut all = result.lock().expect("a run that panics ends the program");
                    *all = combine(std::mem::replace(&mut *all, Ok(Summary::default())), one);
                    if all.is_err() {
                        break;
                    }
                }
            });
        }
    });
    result.into_inner().expect("a run that panics ends the program")
}

fn run_both(seed: u64, trace: bool) -> Result<Summary, Violation> {
    let calm = run(seed, &Options { trace, ..Options::calm() });
    combine(calm, run(seed, &Options { trace, ..Options::stormy() }))
}

fn combine(one: Result<Summary, Violation>, other: Result<Summary, Violation>) -> Result<Summary, Violation> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok(add(one, other)),
        (Err(one), Err(other)) => Err(if other.seed < one.seed { other } else { one }),
        (Err(violation), Ok(_)) | (Ok(_), Err(violation)) => Err(violation),
    }
}

fn add(one: Summary, other: Summary) -> Summary {
    Summary {
        nodes: one.nodes + other.nodes,
        requests: one.requests + other.requests,
        fallbacks: one.fallbacks + other.fallbacks,
        files_opened: one.files_opened + other.files_opened,
        directories_read: one.directories_read + other.directories_read,
        entries_read: one.entries_read + other.entries_read,
        messages: one.messages + other.messages,
        evictions: one.evictions + other.evictions,
        pushes: one.pushes + other.pushes,
        hard_links: one.hard_links + other.hard_links,
        details_read: one.details_read + other.details_read,
        forgotten: one.forgotten + other.forgotten,
        changed: one.changed + other.changed,
        faults: one.faults + other.faults,
    }
}
