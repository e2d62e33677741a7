//! A part of a command line.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::world::World;

/// The arguments of a command from its launcher on, up to one that is not part of it.
#[derive(Clone, Copy)]
pub struct Line<'a> {
    /// All arguments.
    pub arguments: &'a [OsString],
    /// The launcher's number among them.
    pub start: usize,
    /// The number of the first argument behind.
    pub end: usize,
    /// The files that arguments name.
    pub world: &'a dyn World,
}

impl<'a> Line<'a> {
    /// Returns the bytes of an argument.
    pub fn bytes(&self, argument: usize) -> &'a [u8] {
        self.arguments[argument].as_bytes()
    }

    /// Returns an argument as text for messages.
    pub fn text(&self, argument: usize) -> String {
        self.arguments[argument].to_string_lossy().into_owned()
    }

    /// Returns the launcher, as it was called.
    pub fn launcher(&self) -> String {
        self.text(self.start)
    }

    /// Returns whether the argument names an executable file.
    pub fn is_executable(&self, argument: usize) -> bool {
        self.world.executable(&self.arguments[argument]).is_some()
    }

    /// Returns the part up to the next `:` from `at` on.
    pub fn component(self, at: usize) -> Line<'a> {
        let colon = (at..self.end).find(|&argument| self.arguments[argument] == OsStr::new(":"));
        Line { end: colon.unwrap_or(self.end), ..self }
    }
}
