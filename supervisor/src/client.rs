//! Requests to a node's supervisor, over its socket in the node's directory.
//!
//! One request for each connection: a line of JSON in each direction. Both sides check the peer's user.

use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::namespace::receive_with_descriptors;

/// The longest line, in bytes.
pub(crate) const LINE_BYTES_MAX: usize = 16 << 10;
/// How long an answer may take. Unmounting takes longest.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// How often a process requests its node's namespaces.
const ATTEMPTS_MAX: u32 = 10;

/// A request to a supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// Return the namespaces of the node's processes.
    Enter,
    /// Return the supervisor's status.
    Status,
    /// Start a new daemon from the current executable, and hand over to it.
    Restart,
    /// Unmount and end; refused if the mount is in use.
    Stop,
    /// Unmount and end; files in use are served from the source until they are closed.
    Detach,
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// Why the request was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refusal>,
    /// The answer to [`Request::Status`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
}

/// Why a supervisor refuses a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
#[serde(rename_all = "lowercase")]
pub enum Refusal {
    /// The mount is in use.
    #[error("the mount is in use")]
    Busy,
    /// There is no namespace to enter.
    #[error("this node's processes have no namespace of their own")]
    NoNamespace,
    /// Another reason.
    #[error("{0}")]
    Other(String),
}

/// A supervisor's status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The daemon's PID, unless the supervisor serves the mount itself.
    pub daemon: Option<u32>,
    /// Daemons started so far.
    pub starts: u64,
    /// Where the file system is mounted.
    pub mount_point: String,
}

/// The namespaces of a node's processes.
#[derive(Debug)]
pub struct Namespaces {
    /// The mount namespace.
    pub mount: OwnedFd,
    /// The user namespace, to be entered first.
    pub user: Option<OwnedFd>,
}

/// Why a request failed.
#[derive(Debug, Error)]
pub enum AskError {
    /// No supervisor answers at the socket.
    #[error("the supervisor can't be asked: {0}")]
    Io(#[from] io::Error),
    /// The supervisor refuses.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Another user's process listens at the socket.
    #[error("the supervisor's socket belongs to another user")]
    OtherUser,
}

/// Sends a request to the supervisor at `socket`.
///
/// # Errors
/// See [`AskError`].
pub fn ask(socket: &Path, request: Request) -> Result<Reply, AskError> {
    exchange(socket, request).map(|(reply, _)| reply)
}

/// Returns the namespaces of the node whose supervisor listens at `socket`.
///
/// # Errors
/// See [`AskError`].
pub fn namespaces(socket: &Path) -> Result<Namespaces, AskError> {
    let mut answer = exchange(socket, Request::Enter);
    for _ in 1..ATTEMPTS_MAX {
        // The supervisor times out soon, and this process may not be scheduled for a while after connecting.
        let Err(AskError::Io(error)) = &answer else { break };
        let is_turned_away =
            matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof);
        if !is_turned_away {
            break;
        }
        answer = exchange(socket, Request::Enter);
    }
    let (_, descriptors) = answer?;
    let mut descriptors = descriptors.into_iter();
    let mount = descriptors.next().ok_or(Refusal::NoNamespace)?;
    Ok(Namespaces { mount, user: descriptors.next() })
}

fn exchange(socket: &Path, request: Request) -> Result<(Reply, Vec<OwnedFd>), AskError> {
    let mut stream = UnixStream::connect(socket)?;
    let user = rustix::process::geteuid();
    if !socket_peercred(&stream).is_ok_and(|peer| peer.uid == user || peer.uid.is_root() || user.is_root()) {
        return Err(AskError::OtherUser);
    }
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.write_all(&[&serde_json::to_vec(&request).map_err(io::Error::from)?[..], b"\n"].concat())?;
    let (mut received, mut descriptors) = (Vec::new(), Vec::new());
    let mut buffer = [0; 1024];
    while !received.ends_with(b"\n") {
        let (bytes, more) = receive_with_descriptors(stream.as_fd(), &mut buffer)?;
        if bytes == 0 || received.len() > LINE_BYTES_MAX {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        received.extend_from_slice(&buffer[..bytes]);
        descriptors.extend(more);
    }
    let reply: Reply = serde_json::from_slice(&received).map_err(io::Error::from)?;
    match reply.refused {
        Some(refusal) => Err(refusal.into()),
        None => Ok((reply, descriptors)),
    }
}
