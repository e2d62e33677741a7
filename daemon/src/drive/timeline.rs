//! Times and numbers of received facts and files, for the summary.

use std::time::{SystemTime, UNIX_EPOCH};

/// Times and numbers of received facts and files.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timeline {
    /// The first fact or byte, in milliseconds since the epoch.
    pub(crate) first_byte: Option<u64>,
    /// The last complete file, in milliseconds since the epoch.
    pub(crate) last_file: Option<u64>,
    /// Facts and files that the parent sent.
    pub(crate) from_parent: u64,
    /// Facts and files that the reader read.
    pub(crate) from_reader: u64,
    /// Damaged contents that a parent sent.
    pub(crate) mismatches: u64,
}

impl Timeline {
    /// Notes that a fact or content was received.
    pub(crate) fn something_came(&mut self) {
        self.first_byte.get_or_insert_with(unix_ms);
    }

    /// Notes that the reader has read so many facts or files.
    pub(crate) fn reader_read(&mut self, number: usize) {
        self.something_came();
        self.from_reader += number as u64;
    }

    /// Notes that a file is complete.
    pub(crate) fn file_completed(&mut self) {
        self.last_file = Some(unix_ms());
    }
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
