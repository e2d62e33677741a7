//! The environment of the discovery.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::Path;

/// The environment of the discovery.
#[derive(Clone, Copy)]
pub struct World<'a> {
    /// The working directory, absolute.
    pub cwd: &'a Path,
    /// The environment.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// Returns the name of a directory's network file system; `None` if it is local.
    pub network: &'a dyn Fn(&Path) -> Option<&'static str>,
    /// Opens a file for reading. A server of the same file may reuse the opening.
    pub open: &'a dyn Fn(&Path) -> io::Result<File>,
}

/// Returns the value of a variable that is set and not empty.
pub(super) fn set(world: World<'_>, name: impl AsRef<OsStr>) -> Option<OsString> {
    (world.variable)(name.as_ref().to_str()?).filter(|value| !value.is_empty())
}
