//! `operate ROOT FILE`: executes the operations in FILE, a line of JSON for each, below ROOT, and prints the result of
//! each, a line for each; see [`headwater_tests::model`].

use std::path::Path;
use std::process::ExitCode;

use headwater_tests::model::execute;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [root, file] = &arguments[..] else {
        eprintln!("usage: operate ROOT FILE");
        return ExitCode::from(2);
    };
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("operate: {file}: {error}");
            return ExitCode::FAILURE;
        }
    };
    for line in text.lines() {
        match serde_json::from_str(line) {
            Ok(operation) => println!("{}", execute(Path::new(root), &operation).replace('\n', "\\n")),
            Err(error) => {
                eprintln!("operate: {file}: {error}: {line}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
