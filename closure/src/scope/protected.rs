//! Directories that are never taken unless the user names them.

use std::path::{Path, PathBuf};

use super::entry::Entry;
use super::forms::forms;
use super::world::{World, set};

/// File systems of the kernel and of daemons, without files.
pub const PSEUDO: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];

/// The operating system's own: never taken, nor anything below them but for `/usr/local/…`.
const SYSTEM: [&str; 10] = ["/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc", "/boot", "/proc", "/sys"];
/// Never taken as a whole.
const TOPS: [&str; 10] = ["/", "/dev", "/dev/shm", "/home", "/mnt", "/opt", "/run", "/tmp", "/usr/local", "/var"];
/// Variables with directories that jobs write to.
const SCRATCH: [&str; 10] =
    ["SCRATCH", "PSCRATCH", "CSCRATCH", "SCRATCHDIR", "TMPDIR", "TMP", "TEMP", "WORK", "WORKDIR", "LOCAL_SCRATCH"];

/// The directories that are never taken, each with what it is.
pub struct Protected {
    wholes: Vec<(PathBuf, String)>,
    cwd: Vec<PathBuf>,
}

impl Protected {
    /// Returns the protected directories of this environment.
    pub fn new(world: World<'_>) -> Protected {
        let variables = [("HOME", "the home directory")].into_iter();
        let variables = variables.chain(SCRATCH.iter().map(|name| (*name, "scratch")));
        let wholes = variables.filter_map(|(name, what)| Some((forms(Path::new(&set(world, name)?)), name, what)));
        Protected {
            wholes: wholes
                .flat_map(|(forms, name, what)| forms.into_iter().map(move |f| (f, format!("{what} ({name})"))))
                .collect(),
            cwd: forms(world.cwd),
        }
    }

    /// Returns what a directory with these names is, or contains, that may not be taken.
    pub fn judge(&self, forms: &[PathBuf]) -> Option<String> {
        for form in forms {
            if belongs_to_system(form) {
                return Some("part of the operating system, or too much".into());
            }
            if self.cwd.contains(form) {
                return Some("the working directory".into());
            }
            if let Some((_, what)) = self.wholes.iter().find(|(whole, _)| whole.starts_with(form)) {
                return Some(format!("{what} as a whole"));
            }
        }
        None
    }

    /// Returns the working directory's names that are in a directory that was found.
    pub fn cut_out<'a>(&self, entries: impl Iterator<Item = &'a Entry>) -> Vec<PathBuf> {
        let entries: Vec<&Entry> = entries.collect();
        let innermost = |cwd: &PathBuf| {
            let containing = entries.iter().filter(|e| cwd.starts_with(&e.path));
            containing.max_by_key(|e| e.path.components().count()).is_some_and(|e| e.reason != "--shared")
        };
        self.cwd.iter().filter(|cwd| innermost(cwd)).cloned().collect()
    }
}

/// Returns whether a directory is the operating system's, or contains too much to be taken.
pub fn belongs_to_system(path: &Path) -> bool {
    let is_own = SYSTEM.iter().any(|system| path.starts_with(system)) && !path.starts_with("/usr/local");
    is_own || TOPS.iter().any(|top| Path::new(top) == path)
}
