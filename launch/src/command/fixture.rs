//! A world for tests, and how a test says what is expected.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use super::error::Error;
use super::world::World;
use super::{Prepared, prepare};

/// What is put before programs in tests.
pub const PREFIX: [&str; 3] = ["hw", "exec", "--"];

/// Files, and what they say.
#[derive(Default)]
pub struct Fake {
    files: BTreeMap<OsString, Option<PathBuf>>,
    texts: BTreeMap<PathBuf, Vec<u8>>,
    explained: Option<String>,
}

impl Fake {
    /// `argument` leads to this file. Other words that begin with `./` or are single letters in capitals
    /// name executable files of that name.
    pub fn file(mut self, argument: &str, file: Option<&str>) -> Fake {
        self.files.insert(argument.into(), file.map(PathBuf::from));
        self
    }

    /// What every file prints as its version.
    pub fn says(mut self, explained: &str) -> Fake {
        self.explained = Some(explained.into());
        self
    }

    /// A file that can be read.
    pub fn text(mut self, file: &str, text: &str) -> Fake {
        self.texts.insert(file.into(), text.into());
        self
    }

    /// An `mpirun` that says this of itself.
    pub fn mpirun(explained: &str) -> Fake {
        Fake::default()
            .file("mpirun", Some("/opt/bin/mpirun"))
            .file("mpiexec", Some("/opt/bin/mpiexec"))
            .says(explained)
    }

    /// The line with `@ ` taken out is prepared, and must become the line with the prefix for each `@`.
    pub fn check(&self, line: &str) {
        let expected: Vec<&str> = line
            .split(' ')
            .flat_map(|argument| if argument == "@" { PREFIX.to_vec() } else { vec![argument] })
            .collect();
        let prepared = self.prepare(&line.replace("@ ", "")).unwrap_or_else(|e| panic!("{line}: {e}"));
        assert_eq!(prepared.arguments, expected, "{line}");
    }

    /// The line can't be prepared, and the message has this part.
    pub fn check_error(&self, line: &str, part: &str) {
        match self.prepare(line) {
            Ok(prepared) => panic!("{line}: {:?}", prepared.arguments),
            Err(e) => assert!(e.to_string().contains(part), "{line}: {e}"),
        }
    }

    /// The line, prepared.
    pub fn prepare(&self, line: &str) -> Result<Prepared, Error> {
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        prepare(&arguments, &PREFIX.map(OsString::from), None, self)
    }
}

impl World for Fake {
    fn executable(&self, argument: &OsStr) -> Option<PathBuf> {
        if let Some(file) = self.files.get(argument) {
            return file.clone();
        }
        let is_program = argument.as_encoded_bytes().starts_with(b"./")
            || argument.len() == 1 && argument.as_encoded_bytes()[0].is_ascii_uppercase();
        is_program.then(|| Path::new("/bin").join(argument))
    }

    fn version(&self, _: &Path) -> Option<String> {
        self.explained.clone()
    }

    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        self.texts.get(file).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
