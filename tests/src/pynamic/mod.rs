//! A Python program that loads very many libraries, after Pynamic, the Python dynamic benchmark (Lee et al., IISWC'07),
//! which SPINDLE's paper (Frings et al., ICS'13, 4.1) was measured with: extension modules and utility libraries,
//! generated as C, whose functions call one another, and a driver that imports all modules, calls their functions, and
//! prints how long start-up, import and visit took.
//!
//! Sizes are made by the assembler, so that a compiler is done in minutes. What of it is touched: loading maps each
//! library, relocates a table of all of its functions and resolves all symbols; a visit executes all code of all
//! modules, and in the paper's numbers of all utility libraries. The rest of a file, which is for debuggers and symbol
//! tables of linkers, is never read by a loader.

mod plan;
mod source;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

pub use self::plan::Plan;

const DRIVER: &str = include_str!("driver.py");
/// The file with the plan of the libraries beside it, once all are there.
const COMPLETE: &str = "complete";

impl Plan {
    /// The sum that the driver prints.
    pub fn checksum(&self) -> String {
        format!("{:016x}", source::checksum(self))
    }

    /// Generates and builds everything in `directory` for this interpreter, unless it is there already. Returns the
    /// arguments that run it.
    ///
    /// # Errors
    /// What could not be compiled or written, and why.
    pub fn build(&self, directory: &Path, python: &Path) -> Result<Vec<String>, String> {
        let driver = directory.join("driver.py");
        let mut args = vec![python.display().to_string(), driver.display().to_string()];
        args.push(self.modules.to_string());
        let headers = headers(python)?;
        let examples = [source::utility(self, 0).0, source::module(self, 0).0];
        let mark = format!("{self:?} {} {examples:?}", headers.display());
        let complete = directory.join(COMPLETE);
        if fs::read_to_string(&complete).is_ok_and(|text| text == mark) {
            return Ok(args);
        }
        let text = |e: std::io::Error| format!("{}: {e}", directory.display());
        if directory.exists() {
            fs::remove_dir_all(directory).map_err(text)?;
        }
        fs::create_dir_all(directory).map_err(text)?;
        fs::write(&driver, DRIVER).map_err(text)?;
        let scratch = tempfile::tempdir().map_err(text)?;
        let builder = Builder { plan: self, directory, sources: scratch.path(), headers };
        // Each needs some of those with higher numbers alone.
        let lanes: Vec<usize> = (0..self.utilities).collect();
        for lanes in lanes.chunks(source::LANES).rev() {
            in_parallel(lanes, |&library| {
                let (text, needed) = source::utility(self, library);
                builder.build(&format!("libutility{library}.so"), &text, &needed)
            })?;
        }
        let modules: Vec<usize> = (0..self.modules).collect();
        in_parallel(&modules, |&module| {
            let (text, needed) = source::module(self, module);
            builder.build(&format!("module{module}.so"), &text, &needed)
        })?;
        fs::write(complete, mark).map_err(text)?;
        Ok(args)
    }
}

/// The directory of an interpreter's C headers.
fn headers(python: &Path) -> Result<PathBuf, String> {
    let script = "import sysconfig; print(sysconfig.get_path('include'), end='')";
    let output = Command::new(python).args(["-c", script]).output();
    let output = output.map_err(|e| format!("{}: {e}", python.display()))?;
    let directory = PathBuf::from(String::from_utf8_lossy(&output.stdout).into_owned());
    match directory.join("Python.h").is_file() {
        true => Ok(directory),
        false => Err(format!("Python.h of {} is not installed (package python3-dev)", python.display())),
    }
}

struct Builder<'a> {
    plan: &'a Plan,
    directory: &'a Path,
    sources: &'a Path,
    headers: PathBuf,
}

impl Builder<'_> {
    fn build(&self, name: &str, text: &str, needed: &[usize]) -> Result<(), String> {
        let source = self.sources.join(name).with_extension("c");
        fs::write(&source, text).map_err(|e| format!("{}: {e}", source.display()))?;
        let mut command = Command::new("cc");
        command.args(["-O1", "-shared", "-fPIC", "-Wall", "-Wl,--no-as-needed,--build-id=none", "-Wl,-rpath,$ORIGIN"]);
        command.arg(format!("-Wl,-soname,{name}")).arg("-I").arg(&self.headers).arg("-o");
        command.arg(self.directory.join(name)).arg(&source).arg("-L").arg(self.directory);
        command.args(needed.iter().map(|library| format!("-lutility{library}")));
        let output = command.output().map_err(|e| format!("cc: {e}"))?;
        let _ = fs::remove_file(source);
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("{name} of {:?}: {}", self.plan, String::from_utf8_lossy(&output.stderr))),
        }
    }
}

/// Does it with each item, as many at once as there are processors; the first error.
fn in_parallel<T: Sync>(items: &[T], work: impl Fn(&T) -> Result<(), String> + Sync) -> Result<(), String> {
    let next = AtomicUsize::new(0);
    let worker = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            work(item)?;
        }
        Ok(())
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        started.into_iter().try_for_each(|thread| thread.join().expect("it returns its errors"))
    })
}
