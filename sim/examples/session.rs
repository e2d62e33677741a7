//! Runs sessions: `session FIRST [COUNT] [calm|stormy] [trace]`.

use std::process::ExitCode;

use headwater_sim::{Options, run};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|a| a.parse::<u64>().ok());
    let Some(first) = number(0) else {
        eprintln!("usage: session FIRST [COUNT] [calm|stormy] [trace]");
        return ExitCode::FAILURE;
    };
    let has = |word: &str| arguments.iter().any(|a| a == word);
    let options = if has("stormy") { Options::stormy() } else { Options::calm() };
    let options = Options { trace: has("trace"), ..options };
    for seed in first..first + number(1).unwrap_or(1) {
        match run(seed, &options) {
            Ok(summary) if number(1).is_none() => println!("{summary:?}"),
            Ok(_) => {}
            Err(violation) => {
                eprintln!("{violation}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
