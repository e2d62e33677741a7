//! Naive I/O of MPI programs: as it is, with the library, and by hand, in turn. The programs are
//! `tests/programs/mpiio/`, whose own clocks measure reading and writing.

mod broadcast;
mod curves;
mod matrix;
mod mpi;
mod node;
mod nodes;
mod options;
mod quiet;
mod rounds;
mod run;

use std::fs;
use std::path::{Path, PathBuf};

use self::mpi::Mpi;
pub(super) use self::options::Options;
use self::options::Part;
use self::run::Program;
use super::Report;

/// The common state of all parts.
struct Bench<'a> {
    options: &'a Options,
    mpis: Vec<Mpi>,
    /// Programs and files.
    directory: &'a Path,
}

/// Measures what the command line `args` selects.
///
/// # Errors
/// What the machine lacks.
pub(super) fn run(options: Options, args: &[String]) -> Result<(), String> {
    let directory = crate::workspace().join("target/bench/io");
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut mpis = Mpi::installed();
    mpis.retain(|mpi| options.mpis.is_empty() || options.mpis.iter().any(|name| name == mpi.name));
    if mpis.is_empty() {
        return Err("no such MPI is installed (packages openmpi-bin, libopenmpi-dev, mpich, libmpich-dev)".into());
    }
    let mut report = Report::default();
    report.line("# Naive I/O of MPI programs\n");
    report.line(format!("`cargo xtask bench io {}` on {}.\n", args.join(" "), super::machine()));
    for mpi in mpis.iter().filter(|mpi| run::library(mpi).is_none()) {
        report.line(format!("(The library has no part for {} here; `-` marks its results.)\n", mpi.name));
    }
    let bench = Bench { options: &options, mpis, directory: &directory };
    for part in &options.parts {
        match part {
            Part::Node => bench.node(&mut report),
            Part::Nodes => bench.nodes(&mut report),
            Part::Broadcast => bench.broadcast(&mut report),
            Part::Curves => bench.curves(&mut report),
            Part::Matrix => bench.matrix(&mut report),
            Part::Quiet => bench.quiet(&mut report),
        }
    }
    if let Some(file) = &options.markdown {
        fs::write(file, &report.markdown).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

impl Bench<'_> {
    /// A program for an MPI; prints why there is none.
    fn compiled(&self, mpi: &Mpi, program: Program, report: &mut Report) -> Option<PathBuf> {
        let compiled = mpi.compile(program.source(), self.directory);
        compiled.inspect_err(|reason| report.line(format!("({}: {reason})\n", mpi.name))).ok()
    }
}
