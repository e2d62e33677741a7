//! Loads a library into a small process as a trial, before a program depends on it.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A small program that is dynamically linked almost everywhere.
pub const PROGRAM: &str = "/bin/sh";

/// Runs a program that loads `library` by these variables of the loader.
pub fn load(variables: &[&str], library: &OsStr) -> io::Result<Output> {
    let mut command = Command::new(PROGRAM);
    command.args(["-c", ":"]).env_clear().envs(variables.iter().map(|variable| (variable, library)));
    command.stdin(Stdio::null()).output()
}

/// Returns an error if a program can't load this library. A trial that can't be run counts as success.
pub fn preload(library: &Path) -> Result<(), String> {
    match load(&["LD_PRELOAD"], library.as_os_str()) {
        Ok(output) if output.status.success() && output.stderr.is_empty() => Ok(()),
        Ok(output) => {
            let stderr = String::from_utf8_lossy(&output.stderr);
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
