//! What a command line's words name.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// Answers what can't be seen in a command line itself.
pub trait World {
    /// The file that `execvp` would execute for this word, absolute and without symbolic links; `None`
    /// if there is none that may be executed.
    fn executable(&self, argument: &OsStr) -> Option<PathBuf>;

    /// What this file prints when it is called with `--version`, on standard output and standard error;
    /// `None` if it can't be called. It is asked of files that are called as launchers are, alone.
    fn version(&self, file: &Path) -> Option<String>;

    /// The bytes of a file that the command names, relative to the working directory.
    ///
    /// # Errors
    /// As the file system says.
    fn read(&self, file: &Path) -> io::Result<Vec<u8>>;
}
