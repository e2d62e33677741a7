//! Files that commands write for their users: reports and pages. A reader sees all of one, or the one before.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Returns true if it is a pipe or a device, which is written to and not replaced.
pub fn is_other(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|file| !file.is_file() && !file.is_dir())
}

/// Checks that the file can be written: its directory takes another file.
///
/// # Errors
/// It is a directory, or what the system reports.
pub fn check(file: &Path) -> io::Result<()> {
    if file.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if is_other(file) {
        return Ok(());
    }
    let probe = temporary(file)?;
    fs::OpenOptions::new().write(true).create_new(true).open(&probe)?;
    fs::remove_file(&probe)
}

/// Returns the path of a new file in the same directory.
fn temporary(file: &Path) -> io::Result<PathBuf> {
    let mut name = file.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_owned();
    name.push(format!(".{}.part", std::process::id()));
    Ok(file.with_file_name(name))
}

/// Writes a file, which is complete or as it was before.
///
/// # Errors
/// What the system reports.
pub fn write(file: &Path, text: &str) -> io::Result<()> {
    if is_other(file) {
        return fs::write(file, text);
    }
    let part = temporary(file)?;
    let written = fs::OpenOptions::new().write(true).create_new(true).open(&part).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    let written = written.and_then(|()| fs::rename(&part, file));
    written.inspect_err(|_| drop(fs::remove_file(&part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_replaced_at_once() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("report.html");
        check(&file).unwrap();
        write(&file, "one").unwrap();
        write(&file, "two").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "two");
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
        assert!(check(scratch.path()).is_err());
        check(Path::new("/dev/null")).unwrap();
        write(Path::new("/dev/null"), "one").unwrap();
        assert!(is_other(Path::new("/dev/null")));
        assert!(check(&scratch.path().join("absent/report.html")).is_err());
        assert!(check(&file.join("below")).is_err());
    }
}
