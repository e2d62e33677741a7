//! The library's report: lines of JSON, one for each place of the program where it saw a pattern.

use serde::Deserialize;

/// One of them, as far as tests look at it.
#[derive(Debug, Deserialize)]
pub struct Line {
    pub pattern: String,
    pub operations: u64,
    pub transformed: u64,
    pub bytes: u64,
    pub decision: String,
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

/// At how many places operations were transformed.
pub fn transformed_places(text: &str) -> usize {
    report(text).iter().filter(|line| line.transformed > 0).count()
}

#[test]
fn lines_of_a_report() {
    let text = "{\"context\": \"a.c:3\", \"pattern\": \"read+scatter\", \"operations\": 3, \"transformed\": 2, \
                \"bytes\": 12345, \"decision\": \"transform\", \"why\": \"\"}\n\n";
    let lines = report(&format!("{text}{text}"));
    let first = &lines[0];
    assert_eq!((first.pattern.as_str(), first.decision.as_str()), ("read+scatter", "transform"));
    assert_eq!((lines.len(), first.operations, first.bytes), (2, 3, 12345));
    assert_eq!((transformed(text), transformed_places(text)), (2, 1));
}
