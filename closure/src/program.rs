//! Finding a program as `execvp` does.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FileType};
use rustix::io::Errno;

/// The directories that `execvp` searches without a `PATH`.
pub const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Returns the files that `execvp` would try for `program`, in its order; relative ones are relative to the
/// working directory.
pub fn candidates(program: &OsStr, path: Option<&OsStr>) -> Vec<PathBuf> {
    if program.as_bytes().contains(&b'/') || program.is_empty() {
        return vec![PathBuf::from(program)];
    }
    let directories = path.unwrap_or(OsStr::new(DEFAULT_PATH)).as_bytes().split(|&b| b == b':');
    let directories = directories.map(|d| if d.is_empty() { Path::new(".") } else { Path::new(OsStr::from_bytes(d)) });
    directories.map(|d| d.join(program)).collect()
}

/// Returns the file that would be executed for `program`, absolute but with its links.
///
/// # Errors
/// `NOENT` if there is none, `ACCESS` if there is one that may not be executed, `ISDIR` if a directory
/// was named; other error numbers as the file system gives them.
pub fn find(program: &OsStr, path: Option<&OsStr>, cwd: &Path) -> Result<PathBuf, Errno> {
    if program.is_empty() {
        return Err(Errno::NOENT);
    }
    if program.as_bytes().contains(&b'/') {
        let file = cwd.join(program);
        return executable(&file).map(|()| file);
    }
    let mut failure = Errno::NOENT;
    for candidate in candidates(program, path) {
        let file = cwd.join(candidate);
        match executable(&file) {
            Ok(()) => return Ok(file),
            // A directory of the program's name is skipped.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ISDIR) => {}
            Err(e) => failure = e,
        }
    }
    Err(failure)
}

/// Returns the arguments of the `#!` line at the start of a file; `None` if it has none.
pub fn script_arguments(start: &[u8]) -> Option<Vec<OsString>> {
    let line = start.strip_prefix(b"#!")?.split(|&b| b == b'\n').next()?;
    let arguments = line.split(|b| b.is_ascii_whitespace()).filter(|w| !w.is_empty());
    Some(arguments.map(|w| OsStr::from_bytes(w).to_owned()).collect())
}

/// Returns the program that `env` starts by the arguments of a `#!` line; `None` if they are not for `env`.
pub fn behind_env(arguments: &[OsString]) -> Option<&OsStr> {
    let is_env = Path::new(arguments.first()?).file_name() == Some(OsStr::new("env"));
    let mut arguments =
        arguments.iter().skip(1).filter(|w| !w.as_bytes().starts_with(b"-") && !w.as_bytes().contains(&b'='));
    arguments.next().filter(|_| is_env).map(OsString::as_os_str)
}

fn executable(file: &Path) -> Result<(), Errno> {
    let status = rustix::fs::stat(file)?;
    if FileType::from_raw_mode(status.st_mode) == FileType::Directory {
        return Err(Errno::ISDIR);
    }
    rustix::fs::access(file, Access::EXEC_OK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn as_execvp() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for (name, mode) in
            [("a/tool", 0o755), ("b/tool", 0o755), ("b/plain", 0o644), ("a/shadow", 0o644), ("b/shadow", 0o755)]
        {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), "").unwrap();
            fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::create_dir_all(root.join("a/directory")).unwrap();
        let path = format!("/nonexistent:{0}/a:{0}/b", root.display());
        let check = |program: &str, expected: Result<&str, Errno>| {
            let found = find(OsStr::new(program), Some(OsStr::new(&path)), root);
            assert_eq!(found, expected.map(|e| root.join(e)), "{program}");
        };
        check("tool", Ok("a/tool"));
        check("shadow", Ok("b/shadow"));
        check("plain", Err(Errno::ACCESS));
        check("directory", Err(Errno::NOENT));
        check("nothing", Err(Errno::NOENT));
        check("", Err(Errno::NOENT));
        check("./b/tool", Ok("./b/tool"));
        check("b/tool", Ok("b/tool"));
        check("b/plain", Err(Errno::ACCESS));
        check("a/directory", Err(Errno::ISDIR));
        check("b/nothing", Err(Errno::NOENT));
        check("b/tool/x", Err(Errno::NOTDIR));
    }

    #[test]
    fn the_arguments_of_a_script() {
        let check = |start: &str, expected: Option<&[&str]>| {
            let arguments = expected.map(|arguments| arguments.iter().map(OsString::from).collect());
            assert_eq!(script_arguments(start.as_bytes()), arguments, "{start:?}");
        };
        check("#!/bin/sh -e\necho", Some(&["/bin/sh", "-e"]));
        check("#! /usr/bin/env\tpython3", Some(&["/usr/bin/env", "python3"]));
        check("#!\n", Some(&[]));
        check("\x7fELF", None);
        check("", None);
    }

    #[test]
    fn an_empty_component_is_the_working_directory() {
        let found = candidates(OsStr::new("x"), Some(OsStr::new(":/bin")));
        assert_eq!(found, [Path::new("./x"), Path::new("/bin/x")]);
        assert_eq!(candidates(OsStr::new("x"), None), [Path::new("/bin/x"), Path::new("/usr/bin/x")]);
    }
}
