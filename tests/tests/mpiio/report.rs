//! The library's report: lines of JSON, one for each call site where it saw a pattern.

use headwater_tests::harness::mpi::{Library, Mpi};
use headwater_tests::harness::skipped;
use serde::Deserialize;

use crate::job::Job;
use crate::programs::checksum;

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

/// What is sent from other memory than was read, or in another way, is reported with the reason; what isn't, is not.
fn copies(mpi: &Mpi) {
    let Ok(library) = Library::find(mpi) else { return skipped("the library is not built") };
    let program = mpi.build("c/copied.c").unwrap();
    let mut usual = library.clone();
    usual.variables.clear();
    let parsed = ("read+scatter", "the program seems to have changed or copied");
    // The rows of the file are 300,000 bytes long. A place is switched off after three of them.
    let cases = [
        ("scanned", parsed, 1, 800_000),
        ("lines", parsed, 1, 800_000),
        ("closed", parsed, 1, 800_000),
        ("packed", ("read+send", "MPI_Pack"), 6, 6 * 300_004),
        ("persistent", ("read+send", "a persistent request"), 6, 6 * 300_000),
        ("ibcast", ("read+bcast", "MPI_Ibcast"), 6, 6 * 300_000),
    ];
    for (what, (pattern, why), operations, bytes) in cases {
        let arguments = ["--what", what, "--dir", "{dir}"].map(str::to_owned).to_vec();
        let job = Job { mpi, ranks: 2, program: &program, arguments, variables: vec![] };
        let plain = job.run(None);
        assert_eq!(plain.output.status, 0, "{what}: {}", plain.output.stderr);
        for library in [&library, &usual] {
            let done = job.run(Some(library));
            assert_eq!(done.output.status, 0, "{what}: {}", done.output.stderr);
            assert_eq!(checksum(&done.output), checksum(&plain.output), "{what}");
            let lines = report(&done.report);
            let of_it = lines.iter().filter(|line| line.pattern == pattern && line.decision == "leave");
            let sums = of_it.clone().fold((0, 0), |sum, line| (sum.0 + line.operations, sum.1 + line.bytes));
            assert_eq!(sums, (operations, bytes), "{what}: {}", done.report);
            // Of a small file, that it is small is reason enough.
            let is_known = of_it.clone().all(|line| line.why.starts_with(why) || line.why.starts_with("for a file"));
            assert!(is_known, "{what}: {}", done.report);
        }
    }
    let arguments = ["--what", "sized", "--dir", "{dir}"].map(str::to_owned).to_vec();
    let job = Job { mpi, ranks: 2, program: &program, arguments, variables: vec![] };
    assert_eq!(report(&job.run(Some(&usual)).report).len(), 0);
}

#[test]
fn what_is_copied_is_reported() {
    crate::with_first(crate::OPEN_MPI, copies);
    crate::with_first(crate::MPICH, copies);
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
