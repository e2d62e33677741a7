//! The protocol of a daemon's control socket: one line of JSON with a [`Request`], then lines with a [`Response`]. All
//! responses but the last are signs of life.

use serde::{Deserialize, Serialize};

pub use super::path_text::PathText;
use super::stats::NodeStats;
use crate::report::Report;

/// The protocol's version; a daemon of another version answers with an error.
pub const CONTROL_VERSION: u32 = 1;
/// The longest line, in bytes.
pub const CONTROL_LINE_BYTES_MAX: usize = 4 << 20;
/// The interval of signs of life, in milliseconds.
pub const CONTROL_PENDING_MS: u64 = 1000;

/// A request to a daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// [`CONTROL_VERSION`].
    pub version: u32,
    /// The command.
    pub command: Command,
}

/// A command of the control socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Command {
    /// Return the statistics.
    Stats,
    /// Return the report as it is now, and write what processes have used.
    Report,
    /// Evict the store's copies.
    Clear(Vec<Target>),
    /// Begin a generation, in which changed paths below these are read again; without paths, all.
    Refresh(Vec<PathText>),
}

/// What is to be cleared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The path.
    pub path: PathText,
    /// Also all paths below it.
    pub subtree: bool,
}

/// A line from a daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// [`CONTROL_VERSION`].
    pub version: u32,
    /// The answer.
    pub answer: Answer,
}

/// A daemon's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// The command is being executed.
    Pending,
    /// The answer to [`Command::Stats`].
    Stats(Box<NodeStats>),
    /// The answer to [`Command::Report`].
    Report(Box<Report>),
    /// The answer to [`Command::Clear`].
    Cleared(Cleared),
    /// The answer to [`Command::Refresh`].
    Refreshed(Refreshed),
    /// The command failed: object, cause and next step.
    Error(String),
}

/// The result of clearing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cleared {
    /// Evicted files.
    pub files: u64,
    /// Their bytes in the store.
    pub bytes: u64,
    /// Files that a process has open or mapped, which stay.
    pub kept_in_use: u64,
    /// Files that are being received or sent, which stay.
    pub kept_in_transit: u64,
}

/// The result of refreshing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refreshed {
    /// The generation of processes that start from now on.
    pub generation: u64,
    /// The known paths that have changed; `None` if they were not counted and all is read again.
    pub changed: Option<u64>,
    /// Unchanged files in the store.
    pub files: u64,
}

impl Cleared {
    /// Counts a file of `bytes` bytes that was evicted, or not.
    pub(crate) fn note(&mut self, result: &std::io::Result<()>, bytes: u64) {
        match result {
            Ok(()) => {
                self.files += 1;
                self.bytes += bytes;
            }
            Err(_) => self.kept_in_use += 1,
        }
    }
}

impl From<Answer> for Response {
    fn from(answer: Answer) -> Response {
        Response { version: CONTROL_VERSION, answer }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_documented() {
        let line = |command| serde_json::to_string(&Request { version: 1, command }).unwrap();
        assert_eq!(line(Command::Stats), r#"{"version":1,"command":"stats"}"#);
        let odd = PathText::from(&b"/sw/\xff"[..]);
        let clear = Command::Clear(vec![Target { path: odd, subtree: true }]);
        assert_eq!(
            line(clear.clone()),
            r#"{"version":1,"command":{"clear":[{"path":[47,115,119,47,255],"subtree":true}]}}"#
        );
        assert_eq!(serde_json::from_str::<Request>(&line(clear.clone())).unwrap().command, clear);
        let pending = serde_json::to_string(&Response::from(Answer::Pending)).unwrap();
        assert_eq!(pending, r#"{"version":1,"answer":"pending"}"#);
    }
}
