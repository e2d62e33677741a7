//! Runs seeds: `--seeds=N` for N of them, `--minutes=M` for as many as fit, either from `--first=S` on;
//! `--seed=S` for one, with a trace of all events.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use headwater_sim::{Until, run, run_seeds};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| -> Option<u64> {
        let found = arguments.iter().find_map(|a| a.strip_prefix(name)?.strip_prefix('='))?;
        found.parse().ok()
    };
    let first = number("--first").unwrap_or(0);
    let result = match (number("--seed"), number("--seeds"), number("--minutes")) {
        (Some(seed), None, None) => run(seed, true),
        (None, Some(seeds), None) => run_seeds(first, Until::Seeds(seeds)),
        (None, None, Some(minutes)) => {
            run_seeds(first, Until::Time(Instant::now() + Duration::from_secs(60 * minutes)))
        }
        _ => {
            eprintln!("usage: headwater-sim --seed=S | --seeds=N [--first=S] | --minutes=M [--first=S]");
            return ExitCode::FAILURE;
        }
    };
    match result {
        Ok(summary) => {
            println!("{summary:?}");
            ExitCode::SUCCESS
        }
        Err(violation) => {
            eprintln!("{violation}");
            ExitCode::FAILURE
        }
    }
}
