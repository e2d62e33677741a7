//! `demo HEADWATER SOFTWARE`; `cargo xtask demo` builds what it needs and runs it.

use std::process::ExitCode;

use headwater_tests::demo::Demo;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [headwater, software] = &arguments[..] else {
        eprintln!("usage: demo HEADWATER SOFTWARE");
        return ExitCode::from(2);
    };
    match (Demo { headwater: headwater.into(), software: software.into() }).run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error}");
            ExitCode::FAILURE
        }
    }
}
