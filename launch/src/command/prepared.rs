//! A command line with a prefix before each program.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::Launcher;

/// A command line with a prefix before each program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The new arguments. Replaced files still have their old names; see [`Replacement::put`].
    pub arguments: Vec<OsString>,
    /// Files to be written in place of others.
    pub files: Vec<Replacement>,
    /// The launcher of the programs, the innermost if there are several; `None` if the command itself is the
    /// program.
    pub launcher: Option<Launcher>,
    /// The launcher ends before its programs do.
    pub is_detached: bool,
    /// The launcher starts the program on all hosts of the batch system's job, and does not tell it how many there are.
    pub is_on_all_hosts: bool,
    /// The findings, in one line for messages.
    pub explanation: String,
}

/// A file that is to be written, and the position of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The file that the launcher was to read, as it was named.
    pub original: PathBuf,
    /// What the launcher is to read instead.
    pub text: Vec<u8>,
    /// The number of the argument in [`Prepared::arguments`] that names the file.
    pub argument: usize,
    /// The offset of the name in that argument, as in `--app=FILE`.
    pub start: usize,
}

impl Replacement {
    /// Puts the name of the file that was written into the arguments.
    ///
    /// # Panics
    /// If these aren't the arguments that it was found in.
    pub fn put(&self, arguments: &mut [OsString], name: &OsStr) {
        let mut argument = arguments[self.argument].as_bytes()[..self.start].to_vec();
        argument.extend_from_slice(name.as_bytes());
        arguments[self.argument] = OsString::from_vec(argument);
    }
}

pub(super) fn list<W: AsRef<OsStr>>(arguments: &[W]) -> String {
    const NAMED_MAX: usize = 4;
    let mut names: Vec<String> = Vec::new();
    for argument in arguments {
        let name = argument.as_ref().to_string_lossy().into_owned();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let more = names.len().saturating_sub(NAMED_MAX);
    if more > 0 {
        names.truncate(NAMED_MAX);
        names.push(format!("{more} more"));
    }
    match names.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => names.concat(),
    }
}
