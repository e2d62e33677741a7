//! A part of a command line.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::world::World;

/// The words of a command from its launcher on, up to a word that isn't part of it.
#[derive(Clone, Copy)]
pub struct Line<'a> {
    /// All words.
    pub arguments: &'a [OsString],
    /// The launcher's number among them.
    pub start: usize,
    /// The number of the first word behind.
    pub end: usize,
    /// Answers about words.
    pub world: &'a dyn World,
}

impl<'a> Line<'a> {
    /// The bytes of a word.
    pub fn bytes(&self, argument: usize) -> &'a [u8] {
        self.arguments[argument].as_bytes()
    }

    /// A word for people.
    pub fn text(&self, argument: usize) -> String {
        self.arguments[argument].to_string_lossy().into_owned()
    }

    /// The launcher, as it was called.
    pub fn launcher(&self) -> String {
        self.text(self.start)
    }

    /// Whether the word names an executable file.
    pub fn is_executable(&self, argument: usize) -> bool {
        self.world.executable(&self.arguments[argument]).is_some()
    }

    /// The same words up to the next `:` from `at` on.
    pub fn component(self, at: usize) -> Line<'a> {
        let colon = (at..self.end).find(|&argument| self.arguments[argument] == OsStr::new(":"));
        Line { end: colon.unwrap_or(self.end), ..self }
    }
}
