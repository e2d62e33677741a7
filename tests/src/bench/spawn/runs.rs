//! One method of spawning at a time, by the program that measures it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::Report;
use super::super::statistics::Sample;
use crate::harness::{Fixture, headwater_binary};

/// Variables of a long environment.
pub(super) const VARIABLES: usize = 200;
/// How often each method has its turn.
pub(super) const ROUNDS: usize = 7;

/// How processes are made, by the library's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Method {
    pub(super) name: &'static str,
}

impl Method {
    pub(super) const AUTO: Method = Method { name: "auto" };
    pub(super) const ZYGOTE: Method = Method { name: "zygote" };
    /// A zygote that stops before main, when constructors have run.
    pub(super) const MAIN: Method = Method { name: "main" };
    pub(super) const VFORK: Method = Method { name: "vfork" };
    pub(super) const POSIX_SPAWN: Method = Method { name: "posix_spawn" };
    pub(super) const FORK: Method = Method { name: "fork" };
    pub(super) const PFORK: Method = Method { name: "pfork" };
}

/// The measured mode; see `tests/programs/bench/spawn.c`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mode {
    Sync,
    Call,
    Async,
    Vector,
    First,
    Live,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Sync => "sync",
            Mode::Call => "call",
            Mode::Async => "async",
            Mode::Vector => "vector",
            Mode::First => "first",
            Mode::Live => "live",
        }
    }
}

/// The results of one method.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// Or KiB.
    pub(super) microseconds: Vec<f64>,
    /// The mechanism that made the processes in the end, and why.
    by: String,
}

impl Measured {
    /// In units of so many microseconds.
    pub(super) fn sample(&self, unit: f64) -> Sample {
        Sample::new(self.microseconds.iter().map(|us| us / unit).collect())
    }

    /// Reports if it was not a zygote.
    pub(super) fn write_to(&self, report: &mut Report) {
        if !self.by.starts_with("by zygote") {
            report.line(format!("({}.)\n", self.by));
        }
    }
}

/// A program that is spawned, and from where.
pub(super) struct Runs {
    measure: PathBuf,
    program: Vec<String>,
    variables: usize,
    resident_mb: usize,
    imports: String,
    cores: Option<usize>,
}

impl Runs {
    /// A program's arguments; the first is a path below the fixture's directory unless it is absolute.
    pub(super) fn new(fixture: &Fixture, args: &[&str]) -> Runs {
        let library = installed("lib");
        let flags = [
            format!("-I{}", text(&installed("include"))),
            format!("-L{}", text(&library)),
            format!("-Wl,-rpath,{}", text(&library)),
            "-lheadwater-spawn".into(),
        ];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let measure = fixture.build("bench/spawn.c", "bin/measure", &flags);
        let mut program: Vec<String> = args.iter().map(ToString::to_string).collect();
        program[0] = text(&fixture.path(args[0]));
        Runs { measure, program, variables: 0, resident_mb: 0, imports: String::new(), cores: None }
    }

    /// With so many more variables in the environment.
    pub(super) fn variables(mut self, count: usize) -> Runs {
        self.variables = count;
        self
    }

    /// With so much memory in the parent.
    pub(super) fn resident(mut self, megabytes: usize) -> Runs {
        self.resident_mb = megabytes;
        self
    }

    /// With a zygote that stops after these imports.
    pub(super) fn imports(mut self, names: &str) -> Runs {
        names.clone_into(&mut self.imports);
        self
    }

    /// On the first so many cores.
    pub(super) fn cores(mut self, count: usize) -> Runs {
        self.cores = Some(count);
        self
    }

    /// Spawns so many processes by one method.
    pub(super) fn once(&self, method: Method, mode: Mode, count: usize) -> Measured {
        let mut command = match self.cores {
            Some(cores) => {
                let mut command = Command::new("taskset");
                command.arg("--cpu-list").arg(format!("0-{}", cores - 1)).arg(&self.measure);
                command
            }
            None => Command::new(&self.measure),
        };
        let imports = if method == Method::ZYGOTE { self.imports.as_str() } else { "" };
        command.args([method.name, mode.name(), &count.to_string(), &self.resident_mb.to_string(), imports]);
        command.args(&self.program).env_remove("LD_LIBRARY_PATH").env("OPENBLAS_NUM_THREADS", "1");
        for number in 0..self.variables {
            command.env(format!("VARIABLE_{number}"), format!("/opt/package{number}/lib:/opt/package{number}/lib64"));
        }
        let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let (numbers, by) = printed.trim_end().rsplit_once('\n').expect("numbers, and what made the processes");
        // The program's own output is between.
        let microseconds = numbers.lines().filter_map(|line| line.parse().ok()).collect();
        Measured { microseconds, by: by.into() }
    }

    /// The program forks itself so often, which is the limit for a zygote; it waits after each batch of so many.
    pub(super) fn forks(&self, count: usize, round: usize) -> Sample {
        let mut command = Command::new(&self.program[0]);
        command.args(["forks", &count.to_string(), &round.to_string()]);
        let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        Sample::new(printed.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// Runs each method so often, in turn.
    pub(super) fn in_turn(&self, methods: &[Method], mode: Mode, count: usize, rounds: usize) -> Vec<Measured> {
        let mut all = vec![Measured::default(); methods.len()];
        for _ in 0..rounds {
            for (method, measured) in methods.iter().zip(&mut all) {
                let more = self.once(*method, mode, count);
                measured.microseconds.extend(more.microseconds);
                measured.by = more.by;
            }
        }
        all
    }
}

/// Returns where the measured libraries are installed.
fn installed(name: &str) -> PathBuf {
    headwater_binary().ancestors().nth(2).map(|prefix| prefix.join(name)).unwrap_or_else(|| name.into())
}

/// Returns a path as an argument.
fn text(path: &Path) -> String {
    path.display().to_string()
}
