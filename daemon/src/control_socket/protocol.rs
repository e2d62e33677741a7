//! What is said on a daemon's control socket: one line of JSON with a [`Request`]; then lines with a
//! [`Response`], of which all but the last say that the daemon still works on it.

use serde::{Deserialize, Serialize};

pub use super::path_text::PathText;
use super::stats::NodeStats;

/// The protocol's version; a daemon of another version answers with an error.
pub const CONTROL_VERSION: u32 = 1;
/// The longest line, in bytes.
pub const CONTROL_LINE_BYTES_MAX: usize = 4 << 20;
/// How often a daemon that works on a request says so, in milliseconds.
pub const CONTROL_PENDING_MS: u64 = 1000;

/// What is asked of a daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// [`CONTROL_VERSION`].
    pub version: u32,
    /// What it is to do.
    pub command: Command,
}

/// What a daemon can do when asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Command {
    /// Say what it did so far.
    Stats,
    /// Give up the store's copies.
    Clear(Vec<Target>),
    /// Begin a generation, in which what has changed below these paths is read anew; below none of
    /// them: everything.
    Refresh(Vec<PathText>),
}

/// What is to be cleared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The path.
    pub path: PathText,
    /// Everything below it, too.
    pub subtree: bool,
}

/// A line from a daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// [`CONTROL_VERSION`].
    pub version: u32,
    /// What it says.
    pub answer: Answer,
}

/// What a daemon says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// It works on it.
    Pending,
    /// The answer to [`Command::Stats`].
    Stats(Box<NodeStats>),
    /// The answer to [`Command::Clear`].
    Cleared(Cleared),
    /// The answer to [`Command::Refresh`].
    Refreshed(Refreshed),
    /// It can't be done: the object, the cause and the next step.
    Error(String),
}

/// What came of clearing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cleared {
    /// Files given up.
    pub files: u64,
    /// Bytes of the store that they took.
    pub bytes: u64,
    /// Files kept, because a process has them open or mapped.
    pub kept_in_use: u64,
    /// Files kept, because they are being received or sent on.
    pub kept_in_transit: u64,
}

/// What came of refreshing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refreshed {
    /// The generation that processes which start from now on get.
    pub generation: u64,
    /// Paths that have changed, of those of which something was known; unknown where knowledge was
    /// bounded, and everything is read anew.
    pub changed: Option<u64>,
    /// Files of the store that are as they were.
    pub files: u64,
}

impl Cleared {
    /// A file of so many bytes was given up, or not.
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
