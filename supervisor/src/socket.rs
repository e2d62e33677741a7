//! The supervisor's socket. See [`super::client`].

use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;

use crate::client::{LINE_BYTES_MAX, Reply, Request};
use crate::namespace::send_with_descriptors;

/// How long a peer may take to send its request. Meanwhile the supervisor does nothing else.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(200);

/// The listening socket.
#[derive(Debug)]
pub(crate) struct Socket(UnixListener);

/// A peer and its request.
#[derive(Debug)]
pub(crate) struct Peer {
    stream: UnixStream,
    pub(crate) request: Request,
}

impl Socket {
    /// Listens at `path`, replacing a killed predecessor's socket.
    pub(crate) fn listen(path: &Path) -> io::Result<Socket> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        Ok(Socket(listener))
    }

    /// Accepts the next peer, if it belongs to this user or root and sends a valid request.
    pub(crate) fn next(&self) -> Option<Peer> {
        let (stream, _) = self.0.accept().ok()?;
        let user = rustix::process::geteuid();
        if !socket_peercred(&stream).is_ok_and(|peer| peer.uid == user || peer.uid.is_root()) {
            tracing::warn!("another user's process was turned away from the supervisor's socket");
            return None;
        }
        read_request(&stream).map(|request| Peer { stream, request }).ok()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Peer {
    /// Sends the answer, unless the peer is gone.
    pub(crate) fn answer(self, reply: &Reply, descriptors: &[BorrowedFd<'_>]) {
        let mut line = serde_json::to_vec(reply).unwrap_or_default();
        line.push(b'\n');
        if let Err(error) = send_with_descriptors(self.stream.as_fd(), &line, descriptors) {
            tracing::debug!(%error, "a peer of the supervisor did not wait for its answer");
        }
    }
}

fn read_request(stream: &UnixStream) -> io::Result<Request> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    stream.set_write_timeout(Some(REQUEST_TIMEOUT))?;
    let mut line = Vec::new();
    BufReader::new(stream.take(LINE_BYTES_MAX as u64)).read_until(b'\n', &mut line)?;
    if !line.ends_with(b"\n") {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&line)?)
}
