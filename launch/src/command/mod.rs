//! Command lines of launchers: where each program stands, and the line with a prefix before it.
//!
//! [`prepare`] knows the launchers' options, so it passes over them as the launcher itself does, and it
//! looks through programs that execute what follows (`env A=1 srun …`) and through launchers that start
//! launchers (`salloc -N2 srun …`). Where a word may be an option's value or the program it asks the
//! [`World`] which is an executable file, and if that doesn't tell it is an [`Error`]: a prefix in a
//! wrong place would be an argument of something else, in silence.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

mod error;
mod family;
mod files;
mod find;
#[cfg(test)]
mod fixture;
mod grammar;
mod line;
// A table is read by its columns of names.
#[rustfmt::skip]
mod table;
#[cfg(test)]
mod tests;
mod world;

pub use error::Error;
pub use world::World;

use crate::Launcher;

/// How deep launchers may stand in one another.
pub const NESTED_MAX: usize = 8;

/// A command line with a prefix before each program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The new words. Names of files that are replaced are still the originals'; see [`Replacement::put`].
    pub words: Vec<OsString>,
    /// Files to be written in place of others.
    pub files: Vec<Replacement>,
    /// What starts the programs, the innermost if there are several; `None` if the command itself is
    /// the program.
    pub launcher: Option<Launcher>,
    /// The launcher ends before its programs do.
    pub is_detached: bool,
    /// What was found, in one line for people.
    pub explanation: String,
}

/// A file that is to be written, and where its name belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The file that the launcher was to read, as it was named.
    pub original: PathBuf,
    /// What the launcher is to read instead.
    pub text: Vec<u8>,
    /// The number of the word in [`Prepared::words`] that names the file.
    pub word: usize,
    /// The byte of that word with which the name begins, as in `--app=FILE`.
    pub start: usize,
}

impl Replacement {
    /// Puts the name of the file that was written into the words.
    ///
    /// # Panics
    /// If these aren't the words that it was found in.
    pub fn put(&self, words: &mut [OsString], name: &OsStr) {
        let mut word = words[self.word].as_bytes()[..self.start].to_vec();
        word.extend_from_slice(name.as_bytes());
        words[self.word] = OsString::from_vec(word);
    }
}

/// Puts `prefix` before each program that the command `words` starts. No other word is changed.
///
/// With a `marker`, programs stand where it stands, and nothing else is looked at. Without, `world` is
/// asked what words and files are. A command that is no launcher is the program itself.
///
/// # Errors
/// If it isn't clear where a program stands; each [`Error`] says what to do.
pub fn prepare(
    words: &[OsString],
    prefix: &[OsString],
    marker: Option<&OsStr>,
    world: &dyn World,
) -> Result<Prepared, Error> {
    if words.is_empty() {
        return Err(Error::Empty);
    }
    match marker {
        Some(marker) => marked(words, prefix, marker),
        None => find::find(words, prefix, world),
    }
}

/// The command with the prefix in place of each marker.
fn marked(words: &[OsString], prefix: &[OsString], marker: &OsStr) -> Result<Prepared, Error> {
    let name = || marker.to_string_lossy().into_owned();
    let mut prepared = Vec::with_capacity(words.len() + prefix.len());
    let mut programs = Vec::new();
    for (number, word) in words.iter().enumerate() {
        if word != marker {
            prepared.push(word.clone());
            continue;
        }
        let behind = words.get(number + 1).filter(|behind| *behind != marker);
        programs.push(behind.ok_or_else(|| Error::MarkerLast { marker: name() })?);
        prepared.extend_from_slice(prefix);
    }
    if programs.is_empty() {
        return Err(Error::NoMarker { marker: name() });
    }
    let launcher = (words[0] != marker).then_some(Launcher::Marked);
    let explanation = match launcher {
        Some(_) => format!("{} starts {}, as the marker says", words[0].display(), list(&programs)),
        None => format!("{} is the program, as the marker says", list(&programs)),
    };
    Ok(Prepared { words: prepared, files: Vec::new(), launcher, is_detached: false, explanation })
}

/// Names in a row.
fn list<W: AsRef<OsStr>>(words: &[W]) -> String {
    const NAMED_MAX: usize = 4;
    let mut names: Vec<String> = Vec::new();
    for word in words {
        let name = word.as_ref().to_string_lossy().into_owned();
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
