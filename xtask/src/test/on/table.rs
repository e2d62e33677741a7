//! The tables for `docs/results/systems.md`.

use std::fmt::Write as _;
use std::time::Duration;

use super::speed::Speed;
use super::versions::PROGRAMS;
use crate::test::report::Tally;

/// What was found out on one system.
pub struct Outcome {
    /// The system's name.
    pub name: String,
    /// Of [`PROGRAMS`].
    pub versions: Vec<String>,
    /// The time of the installation, and of the first session of two nodes.
    pub first: [Duration; 2],
    /// Each test program's name, its result and time.
    pub tests: Vec<(String, Tally, Duration)>,
    pub speed: Option<Speed>,
}

/// Both tables in Markdown.
pub fn markdown(outcomes: &[Outcome]) -> String {
    let names = PROGRAMS.map(|(name, _)| name).join(" | ");
    let mut text = format!(
        "| system | {names} | passed | failed | skipped | installation, s | first session, s |\n|{}\n",
        "---|".repeat(PROGRAMS.len() + 6)
    );
    for Outcome { name, versions, first, tests, .. } in outcomes {
        let sum = |count: fn(&Tally) -> usize| tests.iter().map(|(_, tally, _)| count(tally)).sum::<usize>();
        let (passed, failed) = (sum(|tally| tally.passed), sum(|tally| tally.failed.len()));
        let [install, session] = first.map(|time| time.as_secs_f64());
        let (versions, skipped) = (versions.join(" | "), sum(|tally| tally.skipped.len()));
        let _ =
            writeln!(text, "| {name} | {versions} | {passed} | {failed} | {skipped} | {install:.1} | {session:.1} |");
    }
    text.push_str(
        "\n| system | start with 200 libraries, plain, ms | with Headwater, ms | ratio | system calls, plain | with Headwater | look-up, ns |\n|---|---|---|---|---|---|---|\n",
    );
    for Outcome { name, speed, .. } in outcomes {
        let Some(Speed { start_ms: [plain, with, ratio], system_calls: [before, after], lookup_ns }) = speed else {
            continue;
        };
        let _ = writeln!(text, "| {name} | {plain} | {with} | {ratio} | {before} | {after} | {lookup_ns} |");
    }
    text
}
