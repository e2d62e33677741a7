//! Detached clusters, by name.
//!
//! A cluster is recorded in a file, `NAME.json`, in a private directory of root. The file names the cluster's
//! processes. A reader that finds them dead removes the file.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::holders;
use crate::{Error, Options, Running, check};

const NAME_BYTES_MAX: usize = 32;
/// Retries to open a directory that is removed meanwhile.
const TRIES_MAX: usize = 100;

/// The records of running clusters.
#[derive(Debug)]
pub struct Registry {
    directory: PathBuf,
    /// Held while clusters are made and ended, so two callers don't make the same one.
    _lock: File,
}

impl Registry {
    /// Opens this machine's registry, below `/run` or, if that is missing, below `$XDG_RUNTIME_DIR`. Waits for another
    /// process that has it open.
    pub fn open() -> Result<Registry, Error> {
        check()?;
        let run = Path::new("/run");
        let parent =
            if run.is_dir() { Some(run.into()) } else { std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) };
        let parent = parent.ok_or_else(|| state(run, "neither it nor $XDG_RUNTIME_DIR is a directory"))?;
        Registry::open_at(&parent.join("headwater-cluster"))
    }

    /// Opens the registry in `directory`, which is made if needed.
    pub fn open_at(directory: &Path) -> Result<Registry, Error> {
        check()?;
        for _ in 0..TRIES_MAX {
            if let Some(registry) = Registry::try_open(directory).map_err(|error| state(directory, error))? {
                return Ok(registry);
            }
        }
        Err(state(directory, "other processes remove it again and again"))
    }

    /// Tries once; `None` if another process removed the directory before it was locked.
    fn try_open(directory: &Path) -> io::Result<Option<Registry>> {
        match DirBuilder::new().mode(0o700).create(directory) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let found = match directory.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        if !found.is_dir() || found.uid() != 0 || found.mode() & 0o077 != 0 {
            return Err(io::Error::other("not a directory that only root can use"));
        }
        let lock = match File::open(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        lock.lock()?;
        // A removed directory has no links.
        let is_there = lock.metadata()?.nlink() > 0;
        Ok(is_there.then(|| Registry { directory: directory.to_owned(), _lock: lock }))
    }

    /// Makes a detached cluster. On failure nothing is left of it.
    pub fn up(&self, name: &str, nodes: usize, options: &Options) -> Result<Running, Error> {
        let path = self.path(name)?;
        if let Some(running) = self.read(&path)? {
            let what =
                format!("{} nodes ({}), process {}", running.nodes.len(), running.node_names(), running.switch.pid);
            return Err(Error::Exists { name: name.to_owned(), what });
        }
        let (running, lifeline) = holders::start(name, nodes, options, true)?;
        let text = serde_json::to_vec(&running).expect("numbers and texts have a form in JSON");
        let aside = self.directory.join(format!("{name}.new"));
        let written =
            fs::write(&aside, text).and_then(|()| fs::rename(&aside, &path)).and_then(|()| holders::stay(lifeline));
        if let Err(error) = written {
            running.end()?;
            let _ = fs::remove_file(&aside);
            let _ = fs::remove_file(&path);
            return Err(state(&path, error));
        }
        Ok(running)
    }

    /// Ends the cluster of this name, and waits for its end; returns `false` if there was none.
    pub fn down(&self, name: &str) -> Result<bool, Error> {
        let path = self.path(name)?;
        let Some(running) = self.read(&path)? else { return Ok(false) };
        running.end()?;
        fs::remove_file(&path).map_err(|error| state(&path, error))?;
        Ok(true)
    }

    /// Returns the cluster of this name.
    pub fn get(&self, name: &str) -> Result<Running, Error> {
        if let Some(running) = self.read(&self.path(name)?)? {
            return Ok(running);
        }
        let names: Vec<String> = self.list()?.into_iter().map(|running| running.name).collect();
        let others = if names.is_empty() { "none is".to_owned() } else { names.join(", ") };
        Err(Error::Unknown { name: name.to_owned(), others })
    }

    /// Returns all running clusters, by name.
    pub fn list(&self) -> Result<Vec<Running>, Error> {
        let failed = |error: io::Error| state(&self.directory, error);
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                all.extend(self.read(&path)?);
            } else if path.extension().is_some_and(|extension| extension == "new") {
                // Its writer was killed before the rename.
                fs::remove_file(&path).map_err(failed)?;
            }
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    fn path(&self, name: &str) -> Result<PathBuf, Error> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_plain) {
            let problem = format!("expected at most {NAME_BYTES_MAX} letters, digits and hyphens");
            return Err(Error::Invalid { what: "name of a cluster", value: name.to_owned(), problem });
        }
        Ok(self.directory.join(format!("{name}.json")))
    }

    /// Reads a record; removes it if its cluster is dead.
    fn read(&self, path: &Path) -> Result<Option<Running>, Error> {
        let text = match fs::read(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|error| state(path, error))?,
        };
        let running: Running = serde_json::from_slice(&text).map_err(|error| state(path, error))?;
        if running.is_alive() {
            return Ok(Some(running));
        }
        fs::remove_file(path).map_err(|error| state(path, error))?;
        Ok(None)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // Fails while clusters are recorded.
        let _ = fs::remove_dir(&self.directory);
    }
}

fn state(path: &Path, problem: impl ToString) -> Error {
    Error::State { path: path.to_owned(), problem: problem.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Process;

    fn with_registry(test: impl FnOnce(&Registry)) {
        if let Err(reason) = check() {
            println!("skipped: {reason}");
            return;
        }
        let parent = tempfile::tempdir().unwrap();
        test(&Registry::open_at(&parent.path().join("clusters")).unwrap());
    }

    fn record(registry: &Registry, name: &str, switch: Process) {
        let running = Running { name: name.to_owned(), switch, nodes: Vec::new(), rate: None, delay: None };
        fs::write(registry.path(name).unwrap(), serde_json::to_vec(&running).unwrap()).unwrap();
    }

    #[test]
    fn the_dead_are_forgotten() {
        with_registry(|registry| {
            let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
            record(registry, "a", Process::of(child.id()).unwrap());
            record(registry, "b", Process::of(std::process::id()).unwrap());
            assert_eq!(registry.list().unwrap().len(), 2);
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(registry.get("a").unwrap_err().to_string().contains("(b)"));
            assert_eq!(registry.list().unwrap().len(), 1);
            assert!(!registry.path("a").unwrap().exists());
        });
    }

    #[test]
    fn names_are_plain() {
        with_registry(|registry| {
            for wrong in ["", "a/b", "..", "a b", &"a".repeat(NAME_BYTES_MAX + 1)] {
                assert!(matches!(registry.get(wrong), Err(Error::Invalid { .. })), "{wrong}");
            }
            assert!(matches!(registry.get("Test-1"), Err(Error::Unknown { .. })));
        });
    }

    #[test]
    fn the_directory_is_roots_alone() {
        with_registry(|registry| {
            let open = registry.directory.with_file_name("open");
            DirBuilder::new().mode(0o755).create(&open).unwrap();
            assert!(matches!(Registry::open_at(&open), Err(Error::State { .. })));
        });
    }
}
