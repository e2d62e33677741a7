//! Loads a library into a small process as a trial, before a program depends on it.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// A small program that is dynamically linked almost everywhere.
pub const PROGRAM: &str = "/bin/sh";

/// Runs a program that loads `library` by a variable of the loader. Returns whether it succeeds, and its standard
/// error.
pub fn load(variable: &str, library: &OsStr) -> io::Result<(bool, String)> {
    let mut command = Command::new(PROGRAM);
    command.args(["-c", ":"]).env_clear().env(variable, library).stdin(Stdio::null());
    let output = command.output()?;
    Ok((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// Returns an error if a program can't load this library. A trial that can't be run counts as success.
pub fn preload(library: &Path) -> Result<(), String> {
    match load("LD_PRELOAD", library.as_os_str()) {
        Ok((true, stderr)) if stderr.is_empty() => Ok(()),
        Ok((_, stderr)) => {
            let why = stderr.lines().next().unwrap_or("it ends at once").trim();
            Err(format!("{PROGRAM} can't load {}: {why}", library.display()))
        }
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_library_is_refused() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        io::Write::write_all(&mut file, b"no library").unwrap();
        let why = preload(file.path()).unwrap_err();
        assert!(why.contains(&file.path().display().to_string()), "{why}");
        assert!(preload(Path::new("/nonexistent/library.so")).is_err());
    }
}
