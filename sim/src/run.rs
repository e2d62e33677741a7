//! One run.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::world::World;
use crate::{Summary, Violation};

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
