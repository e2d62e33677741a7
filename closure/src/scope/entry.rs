//! An entry of the scope.

use std::path::PathBuf;

/// One directory of the scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whether it is served; the longest entry that contains a path decides.
    pub included: bool,
    /// The directory, absolute, without `.` and `..`.
    pub path: PathBuf,
    /// Why it is in the scope.
    pub reason: String,
}
