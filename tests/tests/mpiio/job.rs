//! Jobs in directories of their own, and comparing their files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use headwater_tests::harness::Output;
use headwater_tests::harness::mpi::{Library, Mpi};

/// How long a job may take; one that hangs is a failure.
const TIME_MAX: Duration = Duration::from_secs(120);

/// A job's results.
#[derive(Debug)]
pub struct Done {
    pub output: Output,
    /// The bytes of each file that it left, by the path in its directory.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    /// The library's report.
    pub report: String,
}

/// A program with its arguments, of which `{dir}` is the directory of a run.
pub struct Job<'a> {
    pub mpi: &'a Mpi,
    pub ranks: usize,
    pub program: &'a Path,
    pub arguments: Vec<String>,
    /// Variables of the ranks.
    pub variables: Vec<(String, String)>,
}

impl Job<'_> {
    /// Runs it in a fresh directory.
    pub fn run(&self, library: Option<&Library>) -> Done {
        self.run_behind(&[], library)
    }

    /// The same with these arguments before the launcher, in which `{dir}` is the directory, too.
    pub fn run_behind(&self, prefix: &[&str], library: Option<&Library>) -> Done {
        let scratch = headwater_tests::scratch("mpiio");
        let (dir, report) = (scratch.path().join("job"), scratch.path().join("report"));
        fs::create_dir(&dir).unwrap();
        let args = library.map(|library| library.args(&report)).unwrap_or_default();
        let shown = dir.display().to_string();
        let variables = self.variables.iter().map(|(name, value)| format!("{name}={value}"));
        let program = self.mpi.launcher(self.ranks).in_dir(&dir).arg("env").args(variables).args(args);
        let arguments = self.arguments.iter().map(|word| word.replace("{dir}", &shown));
        let prefix: Vec<String> = prefix.iter().map(|word| word.replace("{dir}", &shown)).collect();
        let prefix: Vec<&str> = prefix.iter().map(String::as_str).collect();
        let output = program.arg(self.program).args(arguments).behind(&prefix).start().finish_within(TIME_MAX);
        Done { output, files: files_below(&dir), report: fs::read_to_string(&report).unwrap_or_default() }
    }

    /// The command that runs it again, for the message of a failure.
    pub fn shown(&self, library: Option<&Library>) -> String {
        let args = library.map(|library| library.args(Path::new("/dev/stderr")).join(" ")).unwrap_or_default();
        let (mpirun, program) = (self.mpi.mpirun(), self.program.display());
        format!("{} -n {} {args} {program} {}", mpirun.display(), self.ranks, self.arguments.join(" "))
    }
}

/// All files below a directory, by their paths in it.
pub fn files_below(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut files, mut left) = (BTreeMap::new(), vec![dir.to_path_buf()]);
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else {
                let bytes = fs::read(&path).unwrap();
                files.insert(path.strip_prefix(dir).unwrap().to_path_buf(), bytes);
            }
        }
    }
    files
}

/// The files that are not the same, and in what.
pub fn differences(one: &BTreeMap<PathBuf, Vec<u8>>, other: &BTreeMap<PathBuf, Vec<u8>>) -> Vec<String> {
    let mut found = Vec::new();
    for path in one.keys().chain(other.keys().filter(|path| !one.contains_key(*path))) {
        let shown = path.display();
        match (one.get(path), other.get(path)) {
            (Some(a), Some(b)) if a == b => {}
            (Some(a), Some(b)) => {
                let at = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()));
                found.push(format!("{shown}: {} and {} bytes, from {at} on", a.len(), b.len()));
            }
            (Some(_), None) => found.push(format!("{shown}: only without the library")),
            (None, _) => found.push(format!("{shown}: only with the library")),
        }
    }
    found
}
