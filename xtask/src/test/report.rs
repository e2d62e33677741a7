//! Counting what passed, failed and was skipped.

use std::time::Duration;

use crate::shell::seconds;

/// The result of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many checks passed.
    pub passed: usize,
    /// Each failure, with how to repeat it.
    pub failed: Vec<String>,
    /// Each check that this machine does not allow, with the reason.
    pub skipped: Vec<String>,
    /// The explanation of the failures.
    pub output: String,
}

impl Tally {
    /// One check that passed.
    pub fn passed() -> Tally {
        Tally { passed: 1, ..Tally::default() }
    }

    /// One check that failed.
    pub fn failed(what: String) -> Tally {
        Tally { failed: vec![what], ..Tally::default() }
    }

    /// One check that could not be made.
    pub fn skipped(what: String) -> Tally {
        Tally { skipped: vec![what], ..Tally::default() }
    }

    /// Both together.
    pub fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
        self.skipped.extend(other.skipped);
        self.output.push_str(&other.output);
    }
}

/// Reads what `cargo test -- --show-output` wrote. A test that prints a line `skipped: REASON`
/// counts as skipped, whatever libtest thinks of it.
pub fn parse_cargo_test(output: &str) -> Tally {
    let mut tally = Tally::default();
    let (mut test, mut in_successes) = ("", false);
    for line in output.lines() {
        if let Some(name) = line.strip_prefix("---- ").and_then(|l| l.strip_suffix(" stdout ----")) {
            test = name;
        } else if let Some(reason) = line.strip_prefix("skipped: ") {
            tally.skipped.push(format!("{test}: {reason}"));
        } else if let Some(name) = line.strip_prefix("test ").and_then(|l| l.strip_suffix(" ... FAILED")) {
            tally.failed.push(name.to_owned());
        } else if let Some(counts) = line.strip_prefix("test result: ") {
            tally.passed += count(counts, "passed");
            in_successes = false;
        }
        in_successes = (in_successes || line == "successes:") && line != "failures:";
        if !in_successes && !line.ends_with(" ... ok") {
            tally.output.push_str(line);
            tally.output.push('\n');
        }
    }
    tally.passed = tally.passed.saturating_sub(tally.skipped.len());
    tally
}

/// The number before `word` in `5 passed; 0 failed`.
fn count(counts: &str, word: &str) -> usize {
    let before = counts.split(word).next().unwrap_or("").trim_end();
    before.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Prints the table and the closing line; true if nothing failed.
pub fn summary(done: &[(String, Tally, Duration)]) -> bool {
    let mut total = Tally::default();
    println!("\n  {:<10} {:>8} {:>8} {:>8} {:>10}", "step", "passed", "failed", "skipped", "time");
    for (name, tally, took) in done {
        let (failed, skipped) = (tally.failed.len(), tally.skipped.len());
        println!("  {name:<10} {:>8} {failed:>8} {skipped:>8} {:>10}", tally.passed, seconds(*took));
        total.add(tally.clone());
    }
    for (title, items) in [("skipped", &total.skipped), ("failed", &total.failed)] {
        if !items.is_empty() {
            println!("\n  {title}:");
        }
        for item in items {
            println!("    {item}");
        }
    }
    println!("\n{} passed, {} failed, {} skipped", total.passed, total.failed.len(), total.skipped.len());
    total.failed.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "
running 3 tests
test a::good ... ok
test a::bad ... FAILED
test a::needs_fuse ... ok

successes:

---- a::needs_fuse stdout ----
skipped: no /dev/fuse

successes:
    a::good
    a::needs_fuse

failures:

---- a::bad stdout ----
why

failures:
    a::bad

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

running 10 tests
test result: ok. 10 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    #[test]
    fn skipped_tests_are_not_passed_ones() {
        let tally = parse_cargo_test(OUTPUT);
        assert_eq!(tally.passed, 11);
        assert_eq!(tally.failed, ["a::bad"]);
        assert_eq!(tally.skipped, ["a::needs_fuse: no /dev/fuse"]);
    }

    #[test]
    fn only_failures_are_shown() {
        let output = parse_cargo_test(OUTPUT).output;
        assert!(output.contains("why") && !output.contains("good"), "{output}");
    }

    #[test]
    fn a_failure_is_seen_in_the_sum() {
        let step = |tally| ("x".to_owned(), tally, Duration::ZERO);
        assert!(summary(&[step(Tally::passed()), step(Tally::skipped("y: z".into()))]));
        assert!(!summary(&[step(Tally::passed()), step(Tally::failed("y".into()))]));
    }
}
