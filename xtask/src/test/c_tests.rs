//! How tests that are C programs are compiled, and where they run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::report::Tally;
use crate::cc;
use crate::roots::Root;
use crate::shell::{Shell, display};

/// Exit status by which a C test reports that it was skipped, as in Automake.
const SKIPPED: i32 = 77;
const SECONDS_MAX: u64 = 120;
const EMULATED_SECONDS_MAX: u64 = 900;

/// Some code is freestanding where it isn't tested.
const FLAGS: &[&str] = &["-g", "-O1", "-DHWA_HOSTED"];
const SANITIZERS: &[&str] = &["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];

/// The system for which C tests are compiled, and in which they run.
pub struct CTests<'a> {
    pub shell: &'a Shell,
    /// The emulated one's root; none here.
    pub root: Option<&'a Root<'a>>,
    /// Variables of its tests.
    variables: Vec<String>,
}

impl<'a> CTests<'a> {
    /// On this machine, under the sanitizers.
    pub fn here(shell: &'a Shell) -> CTests<'a> {
        // Freestanding code allocates nothing, and finding leaks needs ptrace.
        CTests { shell, root: None, variables: vec!["ASAN_OPTIONS=detect_leaks=0".into()] }
    }

    /// In a root that shows the repository, without sanitizers: an emulator has no room for their shadows. `mktable`: the
    /// example of that name, since there is no cargo.
    pub fn emulated(shell: &'a Shell, root: &'a Root<'a>, mktable: &Path) -> CTests<'a> {
        let mktable = format!("HEADWATER_TEST_MKTABLE={}", mktable.display());
        let variables = vec![mktable, "HEADWATER_TEST_EMULATED=1".into()];
        CTests { shell, root: Some(root), variables }
    }

    /// The build directory.
    pub fn directory(&self) -> PathBuf {
        self.shell.built("c-tests")
    }

    /// The compiler for code under test.
    pub fn compiler(&self) -> Command {
        let mut command = cc::compiler(self.shell);
        command.args(FLAGS).args(if self.root.is_none() { SANITIZERS } else { &[] });
        command
    }

    /// Runs a test to its end. `variable`: one of its environment.
    pub fn run(&self, name: &str, program: &Path, variable: Option<(&str, &str)>) -> Result<Tally> {
        let mut command = match self.root {
            None => self.shell.command("env"),
            Some(root) => root.command("env", &self.shell.root),
        };
        command.args(&self.variables).args(variable.map(|(name, value)| format!("{name}={value}"))).arg(program);
        let seconds_max = if self.root.is_none() { SECONDS_MAX } else { EMULATED_SECONDS_MAX };
        let finished = self.shell.capture_limited(&command, seconds_max)?;
        let reason = finished.output.lines().find_map(|line| line.strip_prefix("skipped: "));
        Ok(match (finished.status.code(), reason) {
            (Some(0), _) => Tally::passed(),
            (Some(SKIPPED), Some(reason)) => Tally::skipped(format!("{name}: {reason}")),
            _ => {
                // The command that enters a root is a page.
                let repeat = match self.root {
                    None => format!("; repeat: {}", display(&command, &self.shell.root)),
                    Some(_) => String::new(),
                };
                Tally { output: finished.output, ..Tally::failed(format!("{name}: {}{repeat}", finished.status)) }
            }
        })
    }
}
