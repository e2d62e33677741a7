//! One run, and many on all processors.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use crate::world::World;
use crate::{Summary, Violation};

/// The end of a series of runs.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// After so many seeds.
    Seeds(u64),
    /// At this time.
    Time(Instant),
}

/// Runs one session; with `trace`, each input and output is printed.
///
/// # Errors
/// The first property that does not hold. A panic is one, too.
pub fn run(seed: u64, trace: bool) -> Result<Summary, Violation> {
    let result = catch_unwind(AssertUnwindSafe(|| World::new(seed, trace).run()));
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        let what = format!("a panic: {}", text.unwrap_or("without a text"));
        Err(Violation { seed, at_ms: 0, rank: 0, what })
    })
}

/// Runs ascending seeds from `first` on.
///
/// # Errors
/// The violation with the smallest seed of those that were found; with the first, no more runs begin.
pub fn run_seeds(first: u64, until: Until) -> Result<Summary, Violation> {
    let next = AtomicU64::new(0);
    let result = Mutex::new(Ok(Summary::default()));
    let is_over = |count: u64| match until {
        Until::Seeds(seeds) => count >= seeds,
        Until::Time(end) => Instant::now() >= end,
    };
    let work = || {
        loop {
            let count = next.fetch_add(1, Ordering::Relaxed);
            if is_over(count) || result.lock().expect("runs don't panic").is_err() {
                return;
            }
            let one = run(first.wrapping_add(count), false);
            let mut all = result.lock().expect("runs don't panic");
            *all = combine(std::mem::replace(&mut *all, Ok(Summary::default())), one);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    result.into_inner().expect("runs don't panic")
}

fn combine(one: Result<Summary, Violation>, other: Result<Summary, Violation>) -> Result<Summary, Violation> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok(one + other),
        (Err(one), Err(other)) => Err(if other.seed < one.seed { other } else { one }),
        (Err(violation), Ok(_)) | (Ok(_), Err(violation)) => Err(violation),
    }
}
