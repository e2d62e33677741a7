//! A unit of a suite, plain and by Headwater. A unit with differences is run again in both modes, until its outcomes
//! are the same or the rounds are over. The remaining differences are outcomes that no plain run has had.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::outcomes::{Outcomes, PASSED};
use super::table::Suite;
use super::via::Via;
use crate::shell::Shell;

/// How often a unit with differences is run in each mode.
const ROUNDS_MAX: usize = 3;
const UNIT_SECONDS_MAX: u64 = 900;
/// A unit's exit status; it counts only where no test of it has a result.
pub const END: &str = "(end)";

/// Runs a suite's units.
pub struct Runner<'a> {
    pub shell: &'a Shell,
    pub suite: &'static Suite,
    pub directory: PathBuf,
}

/// The results of a unit.
#[derive(Default)]
pub struct Compared {
    /// Tests, and those that passed plain.
    pub tests: usize,
    pub passed: usize,
    /// Differences in every round, by mechanism.
    pub differences: Vec<Difference>,
    /// Differences in some rounds.
    pub flaky: Vec<Difference>,
    /// By which mechanisms the unit was run.
    pub vias: Vec<Via>,
}

/// A test that does not end as it does without Headwater.
pub struct Difference {
    pub via: Via,
    pub test: String,
    /// How it ended, in each round.
    pub plain: Vec<String>,
    pub with: Vec<String>,
}

impl Runner<'_> {
    pub fn unit(&self, unit: &str, vias: &[Via]) -> Result<Compared> {
        let mut plain = vec![self.once(unit, None)?];
        let tests = plain[0].keys().filter(|test| *test != END).count();
        let passed = plain[0].values().filter(|outcome| *outcome == PASSED).count();
        let mut compared = Compared { tests, passed, vias: vias.to_vec(), ..Compared::default() };
        for &via in vias {
            let mut with = vec![self.once(unit, Some(via))?];
            let first = differing(&plain[..1], &with);
            let mut rest = first.clone();
            while !rest.is_empty() && with.len() < ROUNDS_MAX {
                if plain.len() <= with.len() {
                    plain.push(self.once(unit, None)?);
                }
                with.push(self.once(unit, Some(via))?);
                rest = differing(&plain, &with);
            }
            for test in first {
                let is_stable = rest.contains(&test);
                let difference = Difference { via, plain: ends(&plain, &test), with: ends(&with, &test), test };
                let list = if is_stable { &mut compared.differences } else { &mut compared.flaky };
                list.push(difference);
            }
        }
        Ok(compared)
    }

    fn once(&self, unit: &str, via: Option<Via>) -> Result<Outcomes> {
        // The remains of a run are not for the next.
        for name in ["result", "tmp"] {
            let _ = fs::remove_dir_all(self.directory.join(name));
            fs::create_dir_all(self.directory.join(name))?;
        }
        let finished = self.shell.capture_limited(&self.command(unit, via), UNIT_SECONDS_MAX)?;
        let mode = via.map_or("plain", Via::name);
        let log = format!("{}.{mode}", unit.replace('/', "_"));
        fs::write(self.directory.join("log").join(log), &finished.output)?;
        let mut outcomes = (self.suite.outcomes)(&self.directory, unit, &finished);
        outcomes.insert(END.to_owned(), finished.status.to_string());
        Ok(outcomes)
    }

    fn command(&self, unit: &str, via: Option<Via>) -> Command {
        let command = (self.suite.command)(self.shell, &self.directory, unit);
        let mut whole = self.shell.command("env");
        whole.arg("-C").arg(command.get_current_dir().unwrap_or(&self.directory));
        if let Some(via) = via {
            whole.arg(self.shell.path("target/dist/bin/headwater"));
            whole.args(["run", "--no-summary", "--via", via.name(), "--shared"]).arg(&self.directory);
            if self.suite.has_temporary {
                whole.arg("--shared").arg(self.directory.join("tmp"));
            }
            whole.args(self.suite.options).arg("--");
        }
        whole.arg(command.get_program()).args(command.get_args());
        whole.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        whole.env("TMPDIR", self.directory.join("tmp"));
        whole
    }
}

/// The tests of which no outcome of one side is one of the other's.
fn differing(plain: &[Outcomes], with: &[Outcomes]) -> Vec<String> {
    let tests: BTreeSet<&String> = plain.iter().chain(with).flat_map(BTreeMap::keys).collect();
    let all = |runs: &[Outcomes], test: &String| -> BTreeSet<Option<String>> {
        runs.iter().map(|run| run.get(test).cloned()).collect()
    };
    let mut differing: Vec<String> =
        tests.into_iter().filter(|test| all(plain, test).is_disjoint(&all(with, test))).cloned().collect();
    if differing.len() > 1 {
        differing.retain(|test| test != END);
    }
    differing
}

fn ends(runs: &[Outcomes], test: &str) -> Vec<String> {
    runs.iter().map(|run| run.get(test).map_or("not run", String::as_str).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(text: &str) -> Outcomes {
        text.split_whitespace().filter_map(|w| w.split_once('=')).map(|(t, o)| (t.into(), o.into())).collect()
    }

    fn check(plain: &[&str], with: &[&str], expected: &[&str]) {
        let all = |texts: &[&str]| texts.iter().map(|text| outcomes(text)).collect::<Vec<_>>();
        assert_eq!(differing(&all(plain), &all(with)), expected, "{plain:?} {with:?}");
    }

    #[test]
    fn what_differs_in_every_round() {
        check(&["a=passed b=failed"], &["a=passed b=failed"], &[]);
        check(&["a=passed"], &["a=failed"], &["a"]);
        check(&["a=passed"], &[""], &["a"]);
        check(&["a=passed", "a=failed"], &["a=failed", "a=failed"], &[]);
        check(&["a=passed", "a=passed"], &["a=failed", "a=skipped"], &["a"]);
    }

    #[test]
    fn the_exit_status_counts_only_without_other_results() {
        check(&["a=passed (end)=0"], &["a=failed (end)=1"], &["a"]);
        check(&["a=passed (end)=0"], &["a=passed (end)=1"], &[END]);
    }
}
