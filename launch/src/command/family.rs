//! Recognising a command's launcher.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::error::Error;
use super::line::Line;

/// A kind of command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `srun`.
    Srun,
    /// `salloc`.
    Salloc,
    /// Open MPI's before version 5.
    OpenMpi,
    /// PRRTE's, and Open MPI's from version 5 on.
    Prrte,
    /// Hydra's.
    Hydra,
    /// PALS's `mpiexec`.
    Pals,
    /// `aprun`.
    Aprun,
    /// `flux` with a subcommand.
    Flux,
    /// `jsrun`.
    Jsrun,
    /// `pbsdsh`.
    Pbsdsh,
    /// Starts a script.
    Script,
    /// Its command line is unknown.
    Unsupported,
    /// One of several; `--version` decides.
    Several,
}

/// File names of launchers.
const NAMES: &[(&str, Kind)] = &[
    ("srun", Kind::Srun),
    ("salloc", Kind::Salloc),
    ("sbatch", Kind::Script),
    ("scrontab", Kind::Script),
    ("orterun", Kind::OpenMpi),
    ("prterun", Kind::Prrte),
    ("mpirun.openmpi", Kind::Several),
    ("mpiexec.openmpi", Kind::Several),
    ("oshrun", Kind::Several),
    ("shmemrun", Kind::Several),
    ("mpirun", Kind::Several),
    ("mpiexec", Kind::Several),
    ("prun", Kind::Several),
    ("mpiexec.hydra", Kind::Hydra),
    ("mpirun.hydra", Kind::Hydra),
    ("mpiexec.mpich", Kind::Hydra),
    ("mpirun.mpich", Kind::Hydra),
    ("aprun", Kind::Aprun),
    ("flux", Kind::Flux),
    ("jsrun", Kind::Jsrun),
    ("bsub", Kind::Script),
    ("qsub", Kind::Script),
    ("mpirun_rsh", Kind::Unsupported),
    ("mpiexec.gforker", Kind::Unsupported),
    ("mpiexec.slurm", Kind::Unsupported),
    ("mpiexec_mpt", Kind::Unsupported),
    ("mpirun_mpt", Kind::Unsupported),
    ("ibrun", Kind::Unsupported),
    ("ccc_mprun", Kind::Unsupported),
    ("lrun", Kind::Unsupported),
    ("pbsdsh", Kind::Pbsdsh),
    ("pbs_tmrsh", Kind::Unsupported),
    ("poe", Kind::Unsupported),
    ("charmrun", Kind::Unsupported),
];

/// Returns the launcher that the argument at `at` starts; `None` if it is none.
///
/// Its own name counts, then the name of the file that it leads to, then that file's version.
///
/// # Errors
/// [`Error::NotFound`] and [`Error::WhichLauncher`], if the name is one that several launchers have.
pub fn identify(line: &Line<'_>, at: usize) -> Result<Option<Kind>, Error> {
    let argument = &line.arguments[at];
    let named = by_name(argument);
    if let Some(kind) = named.filter(|&kind| kind != Kind::Several) {
        return Ok(Some(kind));
    }
    let file = match line.world.executable(argument) {
        Some(file) => file,
        None if named.is_some() => return Err(Error::NotFound { launcher: line.text(at) }),
        None => return Ok(None),
    };
    match by_name(file.as_os_str()) {
        Some(Kind::Several) => by_version(line, &file).map(Some),
        None if named.is_some() => by_version(line, &file).map(Some),
        kind => Ok(kind),
    }
}

/// Returns whether an argument names a launcher, by its name alone.
pub fn is_launcher_name(argument: &OsStr) -> bool {
    by_name(argument).is_some()
}

fn by_name(argument: &OsStr) -> Option<Kind> {
    let name = Path::new(argument).file_name()?;
    NAMES.iter().find(|(known, _)| OsStr::new(known) == name).map(|&(_, kind)| kind)
}

fn by_version(line: &Line<'_>, file: &Path) -> Result<Kind, Error> {
    let version = line.world.version(file).unwrap_or_default();
    let is_open_mpi_file = file.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(b".openmpi"));
    match of_version(&version) {
        Some(kind) => Ok(kind),
        None if is_open_mpi_file => Ok(Kind::OpenMpi),
        None => Err(Error::WhichLauncher { file: PathBuf::from(file) }),
    }
}

/// Returns the launcher that prints this version.
fn of_version(version: &str) -> Option<Kind> {
    let has = |part: &str| version.to_ascii_lowercase().contains(part);
    match () {
        // `mpirun (Open MPI) 4.1.4`, `mpirun.openmpi (OpenRTE) 4.1.4`.
        () if has("open mpi)") || has("openrte)") => {
            let digits = version.split(')').nth(1)?.trim_ascii_start();
            let major = digits.split(|c: char| !c.is_ascii_digit()).next()?;
            Some(if major.parse::<u32>().ok()? < 5 { Kind::OpenMpi } else { Kind::Prrte })
        }
        () if has("spectrum mpi") => Some(Kind::OpenMpi),
        () if has("prrte") || has("pmix reference rte") => Some(Kind::Prrte),
        () if has("hydra") || has("intel(r) mpi library") || has("mvapich") => Some(Kind::Hydra),
        () if has("pals") || version.trim_ascii_start().starts_with("mpiexec version ") => Some(Kind::Pals),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::fixture::Fake;
    use std::ffi::OsString;

    const NO_FILE: Option<&str> = None;

    fn check(argument: &str, file: Option<&str>, version: &str, expected: Result<Option<Kind>, &str>) {
        let world = Fake::default().file(argument, file).with_version(version);
        let arguments = [OsString::from(argument)];
        let line = Line { arguments: &arguments, start: 0, end: 1, world: &world };
        match (identify(&line, 0), expected) {
            (Ok(kind), Ok(expected)) => assert_eq!(kind, expected, "{argument}"),
            (Err(e), Err(part)) => assert!(e.to_string().contains(part), "{argument}: {e}"),
            (result, _) => panic!("{argument}: {result:?}"),
        }
    }

    #[test]
    fn a_name_decides() {
        check("srun", NO_FILE, "", Ok(Some(Kind::Srun)));
        check("/opt/slurm/bin/srun", NO_FILE, "", Ok(Some(Kind::Srun)));
        check("./srun", Some("/home/me/wrapper.sh"), "", Ok(Some(Kind::Srun)));
        check("go", Some("/usr/bin/srun"), "", Ok(Some(Kind::Srun)));
        check("./a.out", Some("/home/me/a.out"), "", Ok(None));
        check("a.out", NO_FILE, "", Ok(None));
        check("ssh", Some("/usr/bin/ssh"), "", Ok(None));
        check("mpiexec.hydra", NO_FILE, "", Ok(Some(Kind::Hydra)));
        check("/", NO_FILE, "", Ok(None));
        check("", NO_FILE, "", Ok(None));
    }

    #[test]
    fn a_link_decides() {
        check("mpirun", Some("/usr/bin/orterun"), "", Ok(Some(Kind::OpenMpi)));
        check("mpirun", Some("/opt/prrte/bin/prterun"), "", Ok(Some(Kind::Prrte)));
        check("mpiexec", Some("/opt/mpich/bin/mpiexec.hydra"), "", Ok(Some(Kind::Hydra)));
        check("mpirun", Some("/usr/bin/mpirun.openmpi"), "", Ok(Some(Kind::OpenMpi)));
        check("mpiexec", NO_FILE, "", Err("not found"));
    }

    #[test]
    fn a_version_decides() {
        let check = |version: &str, expected| check("mpiexec", Some("/opt/mpi/bin/mpiexec"), version, expected);
        check("mpirun (Open MPI) 4.1.4\n\nReport bugs to ...", Ok(Some(Kind::OpenMpi)));
        check("mpirun.openmpi (OpenRTE) 4.1.4\n", Ok(Some(Kind::OpenMpi)));
        check("mpirun (Open MPI) 5.0.11\n", Ok(Some(Kind::Prrte)));
        check("mpirun (Open MPI) 10.0.0rc1\n", Ok(Some(Kind::Prrte)));
        check("mpirun (IBM Spectrum MPI) 10.4.0.03rtm4\n", Ok(Some(Kind::OpenMpi)));
        check("prterun (PRRTE) 3.0.6\n", Ok(Some(Kind::Prrte)));
        check("HYDRA build details:\n    Version:      5.0.2\n", Ok(Some(Kind::Hydra)));
        check("Intel(R) MPI Library for Linux* OS, Version 2021.9\n", Ok(Some(Kind::Hydra)));
        check("mpiexec version 1.2.12 revision 37bd0ad\n", Ok(Some(Kind::Pals)));
        check("mpiexec (Open MPI)", Err("doesn't identify"));
        check("", Err("doesn't identify"));
        check("usage: mpiexec\n", Err("--marker @"));
    }
}
