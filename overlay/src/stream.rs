//! The transport of a link: a TCP connection, or a Unix socket to this node's carrier.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use headwater_proto::Time;
use mio::net::{TcpStream, UnixStream};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::io::Errno;
use rustix::net::{SendFlags, getpeername, send, sockopt};

use crate::unsent;

/// How long a peer may be silent, in milliseconds.
pub(crate) const SILENCE_MS_MAX: Time = 10_000;
/// Unsent bytes that a socket accepts: later ones, such as a sign of life, wait for these. A Unix socket accepts less
/// by default (`net.core.wmem_default`).
const UNSENT_BYTES_MAX: u32 = 256 << 10;

/// An ordered stream of bytes.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: OwnedFd,
    /// It leads to the carrier, which passes the bytes to the peer's carrier; otherwise to the peer.
    is_carried: bool,
}

impl Stream {
    /// Returns true if it uses the carrier.
    pub(crate) fn is_carried(&self) -> bool {
        self.is_carried
    }

    /// Sets the socket's options, and has the event loop report its readiness by `token`.
    pub(crate) fn register(&self, registry: &Registry, token: Token) -> io::Result<()> {
        if !self.is_carried {
            sockopt::set_tcp_nodelay(&self.socket, true)?;
            // This ends half-open connections even while nothing is sent.
            sockopt::set_socket_keepalive(&self.socket, true)?;
            let _ = sockopt::set_tcp_keepidle(&self.socket, Duration::from_millis(SILENCE_MS_MAX));
            let _ = sockopt::set_tcp_user_timeout(&self.socket, SILENCE_MS_MAX as u32);
            let _ = unsent::limit(&self.socket, UNSENT_BYTES_MAX);
        }
        let source = self.socket.as_raw_fd();
        registry.register(&mut SourceFd(&source), token, Interest::READABLE | Interest::WRITABLE)
    }

    /// Returns true once the connection has been made.
    pub(crate) fn is_connected(&self) -> io::Result<bool> {
        sockopt::socket_error(&self.socket)??;
        match getpeername(&self.socket) {
            Ok(_) => Ok(true),
            Err(Errno::NOTCONN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the peer's address, if it is known.
    pub(crate) fn peer_addr(&self) -> Option<SocketAddr> {
        getpeername(&self.socket).ok()??.try_into().ok()
    }

    /// Receives bytes. Returns how many; none at the stream's end.
    pub(crate) fn read(&self, room: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.socket, room)?)
    }

    /// Sends bytes. Returns how many.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(&self.socket, bytes, SendFlags::NOSIGNAL)?)
    }
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Stream {
        Stream { socket: stream.into(), is_carried: false }
    }
}

impl From<UnixStream> for Stream {
    fn from(stream: UnixStream) -> Stream {
        Stream { socket: stream.into(), is_carried: true }
    }
}
