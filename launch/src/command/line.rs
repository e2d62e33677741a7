//! A part of a command line.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::world::World;

/// The words of a command from its launcher on, up to a word that isn't part of it.
#[derive(Clone, Copy)]
pub struct Line<'a> {
    /// All words.
    pub words: &'a [OsString],
    /// The launcher's number among them.
    pub start: usize,
    /// The number of the first word behind.
    pub end: usize,
    /// Answers about words.
    pub world: &'a dyn World,
}

impl<'a> Line<'a> {
    /// The bytes of a word.
    pub fn bytes(&self, word: usize) -> &'a [u8] {
        self.words[word].as_bytes()
    }

    /// A word for people.
    pub fn text(&self, word: usize) -> String {
        self.words[word].to_string_lossy().into_owned()
    }

    /// The launcher, as it was called.
    pub fn launcher(&self) -> String {
        self.text(self.start)
    }

    /// Whether the word names an executable file.
    pub fn is_executable(&self, word: usize) -> bool {
        self.world.executable(&self.words[word]).is_some()
    }

    /// The same words up to the next `:` from `at` on.
    pub fn component(self, at: usize) -> Line<'a> {
        let colon = (at..self.end).find(|&word| self.words[word] == OsStr::new(":"));
        Line { end: colon.unwrap_or(self.end), ..self }
    }
}
