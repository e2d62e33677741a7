//! The transport of a link: a TCP connection, several over several interfaces, or a Unix socket to this node's carrier.

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

use crate::rails::{RailFailure, RailStream};
use crate::unsent;

/// How long a peer may be silent, in milliseconds.
pub(crate) const SILENCE_MS_MAX: Time = 10_000;
/// Unsent bytes that a socket accepts: later ones, such as a sign of life, wait for these. A Unix socket accepts less
/// by default (`net.core.wmem_default`).
const UNSENT_BYTES_MAX: u32 = 256 << 10;

/// How long a peer may leave bytes unacknowledged on one of several connections, in milliseconds. Then the link is made
/// again, without the interface that fails.
const RAIL_SILENCE_MS_MAX: Time = 3000;

/// An ordered stream of bytes.
#[derive(Debug)]
pub(crate) enum Stream {
    /// A TCP connection to the peer.
    Tcp(OwnedFd),
    /// Several, over several interfaces.
    Rails(Box<RailStream>),
    /// A socket to the carrier, which passes the bytes to the peer's carrier.
    Carried(OwnedFd),
}

impl Stream {
    /// Returns true if it uses the carrier.
    pub(crate) fn is_carried(&self) -> bool {
        matches!(self, Stream::Carried(_))
    }

    /// Sets the sockets' options, and has the event loop report their readiness by `token`.
    pub(crate) fn register(&self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Stream::Carried(_) => {}
            Stream::Tcp(socket) => set_options(socket, SILENCE_MS_MAX)?,
            Stream::Rails(rails) => rails.sockets().try_for_each(|socket| set_options(socket, RAIL_SILENCE_MS_MAX))?,
        }
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.sockets().try_for_each(|socket| registry.register(&mut SourceFd(&socket.as_raw_fd()), token, interest))
    }

    fn sockets(&self) -> impl Iterator<Item = &OwnedFd> {
        let (one, several) = match self {
            Stream::Tcp(socket) | Stream::Carried(socket) => (Some(socket), None),
            Stream::Rails(rails) => (None, Some(rails.sockets())),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }

    /// Returns true once the connection has been made.
    pub(crate) fn is_connected(&mut self) -> io::Result<bool> {
        match self {
            Stream::Rails(rails) => rails.is_connected(),
            Stream::Tcp(socket) | Stream::Carried(socket) => is_connected(socket),
        }
    }

    /// Returns the peer's address, if it is known.
    pub(crate) fn peer_addr(&self) -> Option<SocketAddr> {
        getpeername(self.sockets().next()?).ok()??.try_into().ok()
    }

    /// Receives bytes. Returns how many; none at the stream's end.
    pub(crate) fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Rails(rails) => rails.read(room),
            Stream::Tcp(socket) | Stream::Carried(socket) => Ok(rustix::io::read(socket, room)?),
        }
    }

    /// Sends bytes. Returns how many.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Rails(rails) => rails.write(bytes),
            Stream::Tcp(socket) | Stream::Carried(socket) => Ok(send(socket, bytes, SendFlags::NOSIGNAL)?),
        }
    }

    /// Returns true while connections over further interfaces are awaited.
    pub(crate) fn is_waiting_for_rails(&self) -> bool {
        matches!(self, Stream::Rails(rails) if rails.is_waiting())
    }

    /// Stops waiting for them as soon as there is one connection.
    pub(crate) fn stop_waiting_for_rails(&mut self) {
        if let Stream::Rails(rails) = self {
            rails.stop_waiting();
        }
    }

    /// Returns true if it has ended because the peer took some of its connections and refused others.
    pub(crate) fn is_partly_refused(&self) -> bool {
        matches!(self, Stream::Rails(rails) if rails.is_partly_refused())
    }

    /// Returns the interfaces that the link does without.
    pub(crate) fn take_rail_failures(&mut self) -> Vec<RailFailure> {
        if let Stream::Rails(rails) = self { rails.take_failures() } else { Vec::new() }
    }
}

fn set_options(socket: &OwnedFd, silence_ms_max: Time) -> io::Result<()> {
    sockopt::set_tcp_nodelay(socket, true)?;
    // This ends half-open connections even while nothing is sent.
    sockopt::set_socket_keepalive(socket, true)?;
    let _ = sockopt::set_tcp_keepidle(socket, Duration::from_millis(silence_ms_max));
    let _ = sockopt::set_tcp_user_timeout(socket, silence_ms_max as u32);
    let _ = unsent::limit(socket, UNSENT_BYTES_MAX);
    Ok(())
}

fn is_connected(socket: &OwnedFd) -> io::Result<bool> {
    sockopt::socket_error(socket)??;
    match getpeername(socket) {
        Ok(_) => Ok(true),
        Err(Errno::NOTCONN) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Stream {
        Stream::Tcp(stream.into())
    }
}

impl From<RailStream> for Stream {
    fn from(stream: RailStream) -> Stream {
        Stream::Rails(Box::new(stream))
    }
}

impl From<UnixStream> for Stream {
    fn from(stream: UnixStream) -> Stream {
        Stream::Carried(stream.into())
    }
}
