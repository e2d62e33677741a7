//! The suites: where each comes from, which units of it are run, and how its output is read.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::outcomes::Outcomes;
use super::{mpi4py, mpich, perl, python, stress};
use crate::shell::{Finished, Shell};

/// A suite, whose files lie in a directory of its own, with its temporary files in `tmp` there.
pub struct Suite {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its name in the table.
    pub title: &'static str,
    /// Fills the directory, as far as that has not been done.
    pub prepare: fn(&Shell, &Path) -> Result<()>,
    /// The units, which one command each runs.
    pub units: fn(&Path) -> Result<Vec<String>>,
    /// Those that are quick; none if preparing the suite takes minutes.
    pub short: &'static [&'static str],
    /// The command that runs a unit.
    pub command: fn(&Shell, &Path, &str) -> Command,
    /// How the unit's tests ended, by what its command wrote, or left in `result`.
    pub outcomes: fn(&Path, &str, &Finished) -> Outcomes,
    /// Further options of `headwater run`, beside the mechanism and the directory.
    pub options: &'static [&'static str],
    /// Its temporary files are in the scope, too. A launcher shares memory by them, from outside of the session.
    pub has_temporary: bool,
}

const WITH_IO: &[&str] = &["--io", "auto", "--io-report", "none"];

/// All suites.
pub const SUITES: &[Suite] = &[
    Suite {
        name: "python",
        title: "CPython's tests",
        prepare: python::prepare,
        units: python::units,
        short: python::SHORT,
        command: python::command,
        outcomes: python::outcomes,
        options: &[],
        has_temporary: true,
    },
    Suite {
        name: "perl",
        title: "Perl's core tests",
        prepare: perl::prepare,
        units: perl::units,
        short: perl::SHORT,
        command: perl::command,
        outcomes: perl::outcomes,
        options: &[],
        has_temporary: true,
    },
    Suite {
        name: "stress-ng",
        title: "stress-ng's file system stressors, `--verify`",
        prepare: stress::prepare,
        units: stress::units,
        short: stress::SHORT,
        command: stress::command,
        outcomes: stress::outcomes,
        options: &[],
        has_temporary: true,
    },
    Suite {
        name: "mpi4py",
        title: "mpi4py's tests, `--io auto`",
        prepare: mpi4py::prepare,
        units: mpi4py::units,
        short: &[],
        command: mpi4py::command,
        outcomes: mpi4py::outcomes,
        options: WITH_IO,
        has_temporary: false,
    },
    Suite {
        name: "mpich",
        title: "MPICH's tests, `--io auto`",
        prepare: mpich::prepare,
        units: mpich::units,
        short: &[],
        command: mpich::command,
        outcomes: mpich::outcomes,
        options: WITH_IO,
        has_temporary: false,
    },
];
