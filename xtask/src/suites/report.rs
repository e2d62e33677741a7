//! The results of a suite: in lines, as a row of a table, and as a step of the tests.

use std::fmt::Write as _;

use super::compare::{Compared, Difference};
use super::explained::{self, Explained};
use super::via::Via;
use crate::test::Tally;

/// The results of a suite.
pub struct Report {
    name: &'static str,
    title: &'static str,
    /// Why it could not be run.
    pub missing: Option<String>,
    tests: usize,
    passed: usize,
    /// How many tests differ, by mechanism; none where it was not run.
    differ: [Option<usize>; 2],
    explained: Vec<Explained>,
    /// Lines about differences without a reason, about flaky ones, and about reasons without a difference.
    unexplained: Vec<String>,
    flaky: Vec<String>,
    outdated: Vec<String>,
    /// Units of which no test runs on this machine, whether with Headwater or without.
    idle: Vec<String>,
}

impl Report {
    pub fn new(name: &'static str, title: &'static str) -> Report {
        let nothing = Vec::new;
        Report {
            name,
            title,
            missing: None,
            tests: 0,
            passed: 0,
            differ: [None; 2],
            explained: Vec::new(),
            unexplained: nothing(),
            flaky: nothing(),
            outdated: nothing(),
            idle: nothing(),
        }
    }

    /// Adds the results of a unit.
    pub fn add(&mut self, unit: &str, compared: Compared) {
        if compared.tests == 0 {
            self.idle.push(format!("{} {unit}", self.name));
        }
        self.tests += compared.tests;
        self.passed += compared.passed;
        for &via in &compared.vias {
            let differ = compared.differences.iter().filter(|d| d.via == via).count();
            *self.differ[via as usize].get_or_insert_default() += differ;
        }
        for difference in &compared.differences {
            let is_why = |e: &Explained| e.is_of(self.name, difference.via, unit, &difference.test);
            match explained::all().find(is_why) {
                Some(why) => self.explained.push(why),
                None => self.unexplained.push(line(self.name, unit, difference)),
            }
        }
        let is_flaky = |d: &&Difference| !explained::all().any(|e| e.is_of(self.name, d.via, unit, &d.test));
        self.flaky.extend(compared.flaky.iter().filter(is_flaky).map(|d| line(self.name, unit, d)));
        let all = compared.differences.iter().chain(&compared.flaky);
        let found: Vec<&Difference> = all.collect();
        for entry in explained::all() {
            let was_run = compared.vias.iter().any(|&via| entry.is_in(self.name, via, unit));
            if was_run && !found.iter().any(|d| entry.is_of(self.name, d.via, unit, &d.test)) {
                self.outdated.push(entry.to_string());
            }
        }
    }

    pub fn is_ok_and_explained(&self) -> bool {
        self.missing.is_none() && self.unexplained.is_empty() && self.tests > 0
    }

    /// A line for each result that needs attention.
    pub fn details(&self) -> String {
        let mut text = String::new();
        let lists = [
            ("differs", &self.unexplained),
            ("differs now and then", &self.flaky),
            ("is explained, but does not differ", &self.outdated),
            ("has no test that runs here", &self.idle),
        ];
        for (what, lines) in lists {
            for line in lines {
                let _ = writeln!(text, "    {what}: {line}");
            }
        }
        if let Some(why) = &self.missing {
            let _ = writeln!(text, "    not run: {why}");
        }
        text
    }

    pub fn tally(&self) -> Tally {
        let repeat = format!("repeat: cargo xtask suites --short --only {}", self.name);
        let mut tally = Tally { passed: self.tests, output: self.details(), ..Tally::default() };
        tally.failed.extend(self.unexplained.iter().map(|line| format!("{line}; {repeat}")));
        if self.tests == 0 && self.missing.is_none() {
            tally.failed.push(format!("{}: no test ran; {repeat}", self.name));
        }
        if let Some(why) = &self.missing {
            let first = why.trim_start().lines().next().unwrap_or_default();
            tally.add(Tally::skipped(format!("{}: {first}", self.name)));
        }
        tally
    }
}

fn line(suite: &str, unit: &str, difference: &Difference) -> String {
    let Difference { via, test, plain, with } = difference;
    let name = explained::name(unit, test);
    format!("{suite} {} {name} is {}, and plain {}", via.name(), with.join(", "), plain.join(", "))
}

/// The table for `docs/results/suites.md`.
pub fn markdown(reports: &[Report]) -> String {
    let mut text = String::from(
        "| suite | tests | passed plain | differ by audit | differ by namespace | explained |\n|---|---|---|---|---|---|\n",
    );
    for report in reports {
        let differ = |via: Via| report.differ[via as usize].map_or("–".to_owned(), |count| count.to_string());
        let (audit, namespace) = (differ(Via::Audit), differ(Via::Namespace));
        let Report { title, tests, passed, explained, .. } = report;
        let _ = writeln!(text, "| {title} | {tests} | {passed} | {audit} | {namespace} | {} |", explained.len());
    }
    let mut why: Vec<Explained> = reports.iter().flat_map(|report| report.explained.iter().copied()).collect();
    why.dedup();
    for entry in why {
        let _ = write!(text, "\n- `{entry}`: {}", entry.why);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(test: &str) -> Difference {
        Difference { via: Via::Audit, test: test.into(), plain: vec!["passed".into()], with: vec!["failed".into()] }
    }

    #[test]
    fn a_difference_without_a_reason_fails() {
        let mut report = Report::new("nothing", "Nothing");
        report.add("u", Compared { tests: 3, passed: 2, vias: vec![Via::Audit], ..Compared::default() });
        assert!(report.is_ok_and_explained());
        let differences = vec![difference("t")];
        report.add("v", Compared { tests: 1, passed: 1, differences, vias: vec![Via::Audit], ..Compared::default() });
        assert!(!report.is_ok_and_explained());
        assert!(report.details().contains("differs: nothing audit v:t is failed, and plain passed"));
        assert!(markdown(&[report]).contains("| Nothing | 4 | 3 | 1 | – | 0 |"));
    }
}
