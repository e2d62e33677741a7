//! The files that a command line's arguments name.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// Information that is not in a command line itself.
pub trait World {
    /// Returns the file that `execvp` would execute for this argument, absolute and without symbolic links;
    /// `None` if there is none that may be executed.
    fn executable(&self, argument: &OsStr) -> Option<PathBuf>;

    /// Returns what this file prints for `--version`, on standard output and standard error; `None` if it
    /// can't be called. Only files with names of launchers are called.
    fn version(&self, file: &Path) -> Option<String>;

    /// Returns the bytes of a file that the command names, relative to the working directory.
    ///
    /// # Errors
    /// Those of the file system.
    fn read(&self, file: &Path) -> io::Result<Vec<u8>>;
}
