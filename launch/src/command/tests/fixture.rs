//! A world for tests, and the notation of expectations.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use crate::command::{Error, Prepared, World, prepare};

/// What is put before programs in tests.
pub const PREFIX: [&str; 3] = ["hw", "exec", "--"];

/// Files, with their contents and versions.
#[derive(Default)]
pub struct Fake {
    files: BTreeMap<OsString, Option<PathBuf>>,
    texts: BTreeMap<PathBuf, Vec<u8>>,
    version: Option<String>,
}

impl Fake {
    /// Adds a file that `argument` leads to. Other arguments that begin with `./` or are single capital
    /// letters name executable files of that name.
    pub fn file(mut self, argument: &str, file: Option<&str>) -> Fake {
        self.files.insert(argument.into(), file.map(PathBuf::from));
        self
    }

    /// Sets the version of every file.
    pub fn with_version(mut self, version: &str) -> Fake {
        self.version = Some(version.into());
        self
    }

    /// Adds a file with contents.
    pub fn text(mut self, file: &str, text: &str) -> Fake {
        self.texts.insert(file.into(), text.into());
        self
    }

    /// Returns a world with an `mpirun` of this version.
    pub fn mpirun(version: &str) -> Fake {
        Fake::default()
            .file("mpirun", Some("/opt/bin/mpirun"))
            .file("mpiexec", Some("/opt/bin/mpiexec"))
            .with_version(version)
    }

    /// Prepares the line without `@ `, and checks that it becomes the line with the prefix for each `@`.
    pub fn check(&self, line: &str) {
        let expected: Vec<&str> = line
            .split(' ')
            .flat_map(|argument| if argument == "@" { PREFIX.to_vec() } else { vec![argument] })
            .collect();
        let prepared = self.prepare(&line.replace("@ ", "")).unwrap_or_else(|e| panic!("{line}: {e}"));
        assert_eq!(prepared.arguments, expected, "{line}");
    }

    /// Checks that the line can't be prepared, and that the message has this part.
    pub fn check_error(&self, line: &str, part: &str) {
        match self.prepare(line) {
            Ok(prepared) => panic!("{line}: {:?}", prepared.arguments),
            Err(e) => assert!(e.to_string().contains(part), "{line}: {e}"),
        }
    }

    /// Prepares the line.
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
        self.version.clone()
    }

    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        self.texts.get(file).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
