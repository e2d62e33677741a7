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
    said: Option<String>,
}

impl Fake {
    /// `word` leads to this file. Other words that begin with `./` or are single letters in capitals
    /// name executable files of that name.
    pub fn file(mut self, word: &str, file: Option<&str>) -> Fake {
        self.files.insert(word.into(), file.map(PathBuf::from));
        self
    }

    /// What every file prints as its version.
    pub fn says(mut self, said: &str) -> Fake {
        self.said = Some(said.into());
        self
    }

    /// A file that can be read.
    pub fn text(mut self, file: &str, text: &str) -> Fake {
        self.texts.insert(file.into(), text.into());
        self
    }

    /// An `mpirun` that says this of itself.
    pub fn mpirun(said: &str) -> Fake {
        Fake::default().file("mpirun", Some("/opt/bin/mpirun")).file("mpiexec", Some("/opt/bin/mpiexec")).says(said)
    }

    /// The line with `@ ` taken out is prepared, and must become the line with the prefix for each `@`.
    pub fn check(&self, line: &str) {
        let expected: Vec<&str> =
            line.split(' ').flat_map(|word| if word == "@" { PREFIX.to_vec() } else { vec![word] }).collect();
        let prepared = self.prepare(&line.replace("@ ", "")).unwrap_or_else(|e| panic!("{line}: {e}"));
        assert_eq!(prepared.words, expected, "{line}");
    }

    /// The line can't be prepared, and the message has this part.
    pub fn check_error(&self, line: &str, part: &str) {
        match self.prepare(line) {
            Ok(prepared) => panic!("{line}: {:?}", prepared.words),
            Err(e) => assert!(e.to_string().contains(part), "{line}: {e}"),
        }
    }

    /// The line, prepared.
    pub fn prepare(&self, line: &str) -> Result<Prepared, Error> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        prepare(&words, &PREFIX.map(OsString::from), None, self)
    }
}

impl World for Fake {
    fn executable(&self, word: &OsStr) -> Option<PathBuf> {
        if let Some(file) = self.files.get(word) {
            return file.clone();
        }
        let is_program = word.as_encoded_bytes().starts_with(b"./")
            || word.len() == 1 && word.as_encoded_bytes()[0].is_ascii_uppercase();
        is_program.then(|| Path::new("/bin").join(word))
    }

    fn version(&self, _: &Path) -> Option<String> {
        self.said.clone()
    }

    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        self.texts.get(file).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
