//! The library's report: lines of JSON, one for each call site where it saw a pattern.

use headwater_tests::harness::mpi::{Library, Mpi};
use headwater_tests::harness::skipped;
use serde::Deserialize;

use crate::job::Job;

/// One of them, as far as tests read it.
#[derive(Debug, Deserialize)]
pub struct Line {
    pub pattern: String,
    pub operations: u64,
    pub transformed: u64,
    pub bytes: u64,
    pub decision: String,
    #[serde(default)]
    pub why: String,
}

/// The lines of a report.
pub fn report(text: &str) -> Vec<Line> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("the report's line `{line}`: {e}"))).collect()
}

/// How many operations were transformed.
pub fn transformed(text: &str) -> u64 {
    report(text).iter().map(|line| line.transformed).sum()
}

/// The number of call sites whose operations were transformed.
pub fn transformed_sites(text: &str) -> usize {
    report(text).iter().filter(|line| line.transformed > 0).count()
}

/// The report of a program of which nothing is worth it, with the thresholds that users have.
fn left(mpi: &Mpi, bytes: usize, what: &str) -> Vec<Line> {
    let mut library = Library::find(mpi).unwrap();
    library.variables.clear();
    let program = mpi.build("c/left.c").unwrap();
    let arguments = vec!["{dir}".into(), bytes.to_string(), what.into()];
    let done = Job { mpi, ranks: 2, program: &program, arguments, variables: vec![] }.run(Some(&library));
    assert_eq!(done.output.status, 0, "{}", done.output.stderr);
    report(&done.report)
}

/// A pattern that was found and left alone is reported with its reason, and nothing else is.
fn reasons(mpi: &Mpi) {
    if Library::find(mpi).is_err() {
        return skipped("the library is not built");
    }
    // Of more it is measured whether it is worth it.
    for bytes in [8 << 10, 24 << 10] {
        let small = "too few bytes";
        let is_reported = |lines: &[Line], pattern: &str, times: u64, parts: u64, why: &str| {
            let all = (times * parts * bytes as u64, times, 0);
            let of = |line: &&Line| line.pattern == pattern && line.decision == "leave";
            let sum = lines.iter().filter(of).map(|line| (line.bytes, line.operations, line.transformed));
            let sum = sum.reduce(|a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2));
            assert_eq!(sum, Some(all), "{pattern} of {bytes}: {lines:?}");
            let has_why = lines.iter().filter(of).all(|line| line.why.starts_with(why));
            assert!(has_why, "{pattern} of {bytes}: {lines:?}");
        };
        assert_eq!(left(mpi, bytes, "none").len(), 0);
        for (what, times) in [("some", 1), ("threads", 4)] {
            let lines = left(mpi, bytes, what);
            is_reported(&lines, "read+scatter", 5 * times, 2, small);
            is_reported(&lines, "read+send", 3 * times, 1, small);
            is_reported(&lines, "gather+write", 2 * times, 2, small);
        }
    }
}

#[test]
fn what_is_left_alone_is_reported() {
    crate::with_first(crate::OPEN_MPI, reasons);
    crate::with_first(crate::MPICH, reasons);
}

#[test]
fn lines_of_a_report() {
    let text = "{\"context\": \"a.c:3\", \"pattern\": \"read+scatter\", \"operations\": 3, \"transformed\": 2, \
                \"bytes\": 12345, \"decision\": \"transform\", \"why\": \"\"}\n\n";
    let lines = report(&format!("{text}{text}"));
    let first = &lines[0];
    assert_eq!((first.pattern.as_str(), first.decision.as_str()), ("read+scatter", "transform"));
    assert_eq!((lines.len(), first.operations, first.bytes), (2, 3, 12345));
    assert_eq!((transformed(text), transformed_sites(text)), (2, 1));
}
