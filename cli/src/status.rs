//! Exit statuses: of the command itself, and of the programs that it runs.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use serde::{Serialize, Serializer};

use crate::process;

/// A failure of headwater's own, as `env` and `timeout` have it.
pub const FAILURE: u8 = 125;

/// How a program ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// The exit status, as a shell shows it: 128 + n if signal n ended the program.
    pub code: u8,
    /// The signal that ended it. `None` also if it was one of several programs.
    pub signal: Option<i32>,
}

impl From<u8> for Ending {
    fn from(code: u8) -> Ending {
        Ending { code, signal: None }
    }
}

impl From<ExitStatus> for Ending {
    fn from(status: ExitStatus) -> Ending {
        status.signal().map_or_else(|| Ending::from(status.code().unwrap_or(0) as u8), Ending::by)
    }
}

impl Ending {
    /// Returns the ending of a program that a signal ended.
    pub fn by(signal: i32) -> Ending {
        Ending { code: (128 + signal) as u8, signal: Some(signal) }
    }

    /// Ends this process by the program's signal, or returns the exit status. Callers act on the signal: after Ctrl-C, a
    /// shell ends a script only if the signal ended the command that it waited for.
    pub fn repeat(self) -> u8 {
        self.signal.map_or(self.code, |signal| process::end_by(signal))
    }
}

impl Serialize for Ending {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.code)
    }
}
