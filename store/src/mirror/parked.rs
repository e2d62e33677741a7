//! Copies that have lost their names in the mirror and are still in use.

use std::path::PathBuf;

use headwater_proto::Time;

/// How often they are checked, in milliseconds.
pub(super) const CHECK_MS: Time = 1_000;

/// Copies that have lost their names in the mirror and are still in use.
#[derive(Debug, Default)]
pub(super) struct Parked {
    pub(super) files: Vec<PathBuf>,
    pub(super) checked_at: Time,
}

impl Parked {
    /// Returns when the next check is due.
    pub(super) fn next(&self) -> Option<Time> {
        (!self.files.is_empty()).then_some(self.checked_at + CHECK_MS)
    }
}
