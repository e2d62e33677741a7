//! `--preload`: files that daemons fetch before the program requests them.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use headwater_closure::recorded::{self, ENTRIES_MAX, Entry, What};
use headwater_daemon::{Preload, PreloadList, PreloadProgram};

use crate::message::log;

/// Limit of a list, in bytes: it is part of each daemon's configuration.
const LIST_BYTES_MAX: u64 = 32 << 20;

/// The user's choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreloadOption {
    /// The libraries that the program is linked with.
    Auto,
    /// Nothing.
    Off,
    /// The paths in this file.
    File(PathBuf),
}

impl From<OsString> for PreloadOption {
    fn from(value: OsString) -> PreloadOption {
        match value.to_str() {
            Some("auto") => PreloadOption::Auto,
            Some("off") => PreloadOption::Off,
            _ => PreloadOption::File(value.into()),
        }
    }
}

/// Returns what to fetch for `program`, an absolute path, started in `cwd`. Reports a file that can't be used, and
/// returns `None`.
pub fn prepare(option: &PreloadOption, program: &Path, cwd: &Path) -> Option<Preload> {
    match option {
        PreloadOption::Off => None,
        PreloadOption::Auto => of_program(program, cwd),
        PreloadOption::File(file) => match read(&cwd.join(file), cwd) {
            Ok(entries) => Some(Preload::List(PreloadList {
                name: file.display().to_string(),
                is_learnt: false,
                is_complete: false,
                entries,
            })),
            Err(error) => {
                log(format_args!("warning: --preload: {error:#}. The program runs without it"));
                None
            }
        },
    }
}

/// Returns the name in a summary.
pub fn name(preload: &Preload) -> String {
    match preload {
        Preload::Program(program) => program.file.clone(),
        Preload::List(list) => list.name.clone(),
    }
}

/// Returns `None` if a path or variable is not UTF-8: then nothing is preloaded.
fn of_program(program: &Path, cwd: &Path) -> Option<Preload> {
    let variable = |name: &str| match env::var(name) {
        Ok(value) => Some(Some(value)),
        Err(env::VarError::NotPresent) => Some(None),
        Err(env::VarError::NotUnicode(_)) => None,
    };
    Some(Preload::Program(PreloadProgram {
        file: program.to_str()?.into(),
        cwd: cwd.to_str()?.into(),
        path: variable("PATH")?,
        library_path: variable("LD_LIBRARY_PATH")?,
        preload: variable("LD_PRELOAD")?,
        tunables: variable("GLIBC_TUNABLES")?,
    }))
}

/// Reads a closure or a list of paths, as lines of a closure.
pub fn read(file: &Path, cwd: &Path) -> Result<Vec<String>> {
    let shown = file.display();
    let opened =
        File::open(file).with_context(|| format!("{shown} can't be opened; name a file of `headwater record`"))?;
    let mut text = Vec::new();
    opened.take(LIST_BYTES_MAX + 1).read_to_end(&mut text).with_context(|| format!("{shown} can't be read"))?;
    ensure!(text.len() as u64 <= LIST_BYTES_MAX, "{shown} is larger than {LIST_BYTES_MAX} bytes: shorten it");
    let entries = if recorded::is_closure(&text) {
        recorded::parse(&text).with_context(|| {
            format!("{shown} is not a closure of this version: record it again with `headwater record`")
        })?
    } else {
        listed(&text, cwd).with_context(|| format!("{shown} is neither a closure nor a list of paths"))?
    };
    Ok(entries.iter().map(Entry::to_string).collect())
}

/// Parses a list with a path on each line. Empty lines, and those that begin with `#`, are skipped.
fn listed(text: &[u8], cwd: &Path) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for (number, line) in (1..).zip(text.split(|&b| b == b'\n')) {
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let path = cwd.join(OsStr::from_bytes(line));
        let Some(path) = headwater_abi::Path::new(path.as_os_str().as_bytes()) else {
            bail!("its line {number} is not a path");
        };
        ensure!(entries.len() < ENTRIES_MAX, "it has more than {ENTRIES_MAX} paths");
        entries.push(Entry { what: What::Any, path: OsStr::from_bytes(path.as_bytes()).into() });
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &[u8], expected: Result<&[&str], &str>) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("list");
        std::fs::write(&file, text).unwrap();
        match (read(&file, Path::new("/cwd")), expected) {
            (Ok(entries), Ok(expected)) => assert_eq!(entries, expected),
            (Err(error), Err(expected)) => assert!(format!("{error:#}").contains(expected), "{error:#}"),
            (read, expected) => panic!("{read:?} and not {expected:?}"),
        }
    }

    #[test]
    fn closures_and_lists() {
        check(b"headwater closure 2\nlibrary /sw/a\\x20b\n", Ok(&["library /sw/a\\x20b"]));
        check(b"headwater closure 2\nnonsense\n", Err("line 2 is damaged"));
        check(b"headwater closure 7\n", Err("record it again"));
        check(b"# mine\n/sw/a b\n\n./c/../d/\n", Ok(&["any /sw/a\\x20b", "any /cwd/c/../d"]));
        check(b"/sw\n\x7fELF\0\n", Err("line 2 is not a path"));
        assert!(read(Path::new("/nonexistent"), Path::new("/")).is_err());
    }

    #[test]
    fn the_option() {
        let of = |value: &str| PreloadOption::from(OsString::from(value));
        assert_eq!((of("auto"), of("off")), (PreloadOption::Auto, PreloadOption::Off));
        assert_eq!(of("./auto"), PreloadOption::File("./auto".into()));
    }
}
