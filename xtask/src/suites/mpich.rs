//! MPICH's test suite, from Debian's source package, with Debian's MPICH.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::debian;
use super::outcomes::{FAILED, Outcomes, PASSED};
use crate::shell::{Finished, Shell};

/// The parts about memory, messages and files.
const DIRECTORIES: &[&str] =
    &["attr", "coll", "comm", "datatype", "errhan", "group", "info", "init", "io", "part", "pt2pt", "topo"];
/// More ranks than this take minutes on two processors: each polls without a pause.
const RANKS_MAX: usize = 4;

const CONFIGURE: &str = "./configure CC=mpicc.mpich MPICC=/usr/bin/mpicc.mpich MPIEXEC=/usr/bin/mpiexec.mpich \
    --disable-fortran --disable-cxx --disable-dependency-tracking";

pub fn prepare(shell: &Shell, directory: &Path) -> Result<()> {
    let source = debian::source(shell, "mpich", directory)?.join("test/mpi");
    debian::once(directory, "configured", || {
        shell.run(shell.command("sh").current_dir(&source).args(["-c", CONFIGURE])).map(drop)
    })?;
    debian::once(directory, "built", || {
        for part in ["util", "dtpools"].iter().chain(DIRECTORIES) {
            // A test that this MPI can't build is one that doesn't run.
            let _ = shell.run(shell.command("make").current_dir(source.join(part)).args(["-k", "-j2"]));
        }
        Ok(())
    })
}

/// Units are `DIRECTORY/PROGRAM RANKS [ARGUMENT…]`.
pub fn units(directory: &Path) -> Result<Vec<String>> {
    let mut units = Vec::new();
    for part in DIRECTORIES {
        let directory_of_test = directory.join("source/test/mpi").join(part);
        let list = fs::read_to_string(directory_of_test.join("testlist")).unwrap_or_default();
        for line in list.lines() {
            let Some((program, ranks, arguments)) = parse(line) else { continue };
            if ranks <= RANKS_MAX && directory_of_test.join(program).is_file() {
                units.push(format!("{part}/{program} {ranks} {}", arguments.join(" ")).trim_end().to_owned());
            }
        }
    }
    units.sort();
    units.dedup();
    Ok(units)
}

/// Reads `PROGRAM RANKS [arg=X] [env=…]`; those that need an environment of their own, much memory or time are left out.
fn parse(line: &str) -> Option<(&str, usize, Vec<&str>)> {
    let mut fields = line.split_whitespace();
    let (program, ranks) = (fields.next()?, fields.next()?.parse().ok()?);
    let rest: Vec<&str> = fields.collect();
    let is_plain = rest.iter().all(|word| word.starts_with("arg="));
    (!program.starts_with('#') && is_plain)
        .then(|| (program, ranks, rest.iter().filter_map(|word| word.strip_prefix("arg=")).collect()))
}

pub fn command(shell: &Shell, directory: &Path, unit: &str) -> Command {
    let mut fields = unit.split(' ');
    let (program, ranks) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
    let program = directory.join("source/test/mpi").join(program);
    let mut command = shell.command("mpiexec.mpich");
    command.current_dir(directory.join("tmp")).args(["-n", ranks]).arg(program).args(fields);
    command
}

pub fn outcomes(_directory: &Path, unit: &str, finished: &Finished) -> Outcomes {
    let is_ok = finished.status.success() && finished.output.contains("No Errors");
    Outcomes::from([(unit.to_owned(), if is_ok { PASSED.into() } else { FAILED.into() })])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_testlists() {
        assert_eq!(parse("rdwrord 4"), Some(("rdwrord", 4, vec![])));
        assert_eq!(parse("simple 1 arg=a arg=b"), Some(("simple", 1, vec!["a", "b"])));
        assert_eq!(parse("bigtype 1 mem=6.5"), None);
        assert_eq!(parse("# x 1"), None);
        assert_eq!(parse(""), None);
    }
}
