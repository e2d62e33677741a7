//! Which copies have lost their place and are still in use.

use std::path::PathBuf;

use headwater_proto::Time;

/// How often it is looked whether they are still in use, in milliseconds.
pub(super) const CHECK_MS: Time = 1_000;

/// Copies without a place.
#[derive(Debug, Default)]
pub(super) struct Parked {
    pub(super) files: Vec<PathBuf>,
    pub(super) checked_at: Time,
}

impl Parked {
    /// When to look again.
    pub(super) fn next(&self) -> Option<Time> {
        (!self.files.is_empty()).then_some(self.checked_at + CHECK_MS)
    }
}
