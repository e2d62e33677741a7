//! Tests that are C programs: how they are compiled, and where they run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use super::report::Tally;
use crate::roots::Root;
use crate::shell::{Shell, display};
use crate::{cc, fabric, files, mpiio, shim, side_by_side, slurm, spawn};

/// Exit status by which a C test reports that it was skipped, as in Automake.
const SKIPPED: i32 = 77;
const SECONDS_MAX: u64 = 120;
const EMULATED_SECONDS_MAX: u64 = 900;

/// Some code is freestanding where it isn't tested.
const FLAGS: &[&str] = &["-g", "-O1", "-DHWA_HOSTED"];
const SANITIZERS: &[&str] = &["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];
/// Part of the C library since glibc 2.34.
const LIBRARIES: [&str; 2] = ["-ldl", "-lpthread"];

/// The system for which C tests are compiled, and in which they run.
pub struct CTests<'a> {
    pub shell: &'a Shell,
    /// The emulated one's root; none here.
    root: Option<&'a Root<'a>>,
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
        let variables = vec![format!("HEADWATER_TEST_MKTABLE={}", mktable.display())];
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

    /// Compiles and runs all that need no MPI. Each C file in the `tests` of `shim/audit`, `integrations/slurm`,
    /// `integrations/fabric` and `spawn` that begins with a line `/* sources: a.c b.c */` is a program of its own, linked
    /// with these sources; of those of the carrier, those that need libfabric only where it is. The core of the I/O library
    /// has stand-ins for an MPI.
    pub fn run_all(&self) -> Result<Tally> {
        let mut tally = self.run_in(shim::AUDIT_SOURCES, shim::AUDIT_TESTS)?;
        tally.add(self.run_in(slurm::SOURCES, slurm::TESTS)?);
        tally.add(self.run_in(fabric::SOURCES, fabric::TESTS)?);
        tally.add(self.run_in(spawn::SOURCES, spawn::TESTS)?);
        tally.add(mpiio::test_core(self)?);
        Ok(tally)
    }

    /// They are compiled side by side, and run one after another.
    fn run_in(&self, sources_in: &str, tests_in: &str) -> Result<Tally> {
        let (shell, directory) = (self.shell, self.directory());
        let mut tally = Tally::default();
        std::fs::create_dir_all(&directory)?;
        let mut tests = Vec::new();
        for source in files::with_extensions(&shell.path(tests_in), &["c"])? {
            let text = std::fs::read_to_string(&source)?;
            let Some(sources) = linked_sources(&text) else { continue };
            let name = source.file_stem().expect("a source has a name").to_string_lossy().into_owned();
            let needs_fabric = sources.contains(&fabric::NEEDS_LIBFABRIC);
            let libraries = match needs_fabric {
                // A root has none.
                true if self.root.is_some() => None,
                true => fabric::libraries(shell)?,
                false => Some(vec![]),
            };
            let Some(libraries) = libraries else {
                tally.add(Tally::skipped(format!("{name}: libfabric is missing")));
                continue;
            };
            let mut args = vec![source.strip_prefix(&shell.root)?.display().to_string()];
            args.extend(sources.iter().map(|name| format!("{sources_in}/{name}")));
            args.extend(libraries);
            args.extend(LIBRARIES.map(str::to_owned));
            tests.push((name, args));
        }
        let compiled = side_by_side::map(&tests, |(name, args)| {
            let mut command = self.compiler();
            command.arg(format!("-I{sources_in}")).arg(format!("-I{}", shim::AUDIT_TESTS));
            shell.run(command.arg("-o").arg(directory.join(name)).args(args))
        });
        for ((name, _), compiled) in tests.iter().zip(compiled) {
            tally.add(match compiled {
                Ok(_) => self.run(name, &directory.join(name), None)?,
                Err(error) => {
                    Tally { output: format!("{error:#}\n"), ..Tally::failed(format!("{name}: does not compile")) }
                }
            });
        }
        ensure!(tally != Tally::default(), "{tests_in} contains no C tests");
        Ok(tally)
    }
}

fn linked_sources(text: &str) -> Option<Vec<&str>> {
    let list = text.lines().find_map(|line| line.strip_prefix("/* sources:"))?;
    Some(list.split("*/").next()?.split_whitespace().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_c_tests() {
        assert_eq!(linked_sources("/* sources: a.c b.c */\nint x;"), Some(vec!["a.c", "b.c"]));
        assert_eq!(linked_sources("/* sources: */\n"), Some(vec![]));
        assert_eq!(linked_sources("int x;\n"), None);
    }
}
