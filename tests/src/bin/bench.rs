//! The benchmarks; `cargo xtask bench` builds what they need and runs them.

use std::process::ExitCode;

fn main() -> ExitCode {
    match headwater_tests::bench::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::from(2)
        }
    }
}
