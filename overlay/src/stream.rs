//! The transport of a link: a TCP connection, or a Unix socket to this node's carrier.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use headwater_proto::Time;
use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use rustix::net::sockopt;

use crate::unsent;

/// How long a peer may be silent, in milliseconds.
pub(crate) const SILENCE_MS_MAX: Time = 10_000;
/// Unsent bytes that a socket accepts: later ones, such as a sign of life, wait for these. A Unix socket accepts less
/// by default (`net.core.wmem_default`).
const UNSENT_BYTES_MAX: u32 = 256 << 10;

/// An ordered stream of bytes.
#[derive(Debug)]
pub(crate) enum Stream {
    /// To the peer.
    Tcp(TcpStream),
    /// To the carrier, which passes the bytes to the peer's carrier.
    Carried(UnixStream),
}

impl Stream {
    /// Returns true if it uses the carrier.
    pub(crate) fn is_carried(&self) -> bool {
        matches!(self, Stream::Carried(_))
    }

    /// Sets the socket's options.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        let Stream::Tcp(stream) = self else { return Ok(()) };
        sockopt::set_tcp_nodelay(stream, true)?;
        // This ends half-open connections even while nothing is sent.
        sockopt::set_socket_keepalive(stream, true)?;
        let _ = sockopt::set_tcp_keepidle(stream, Duration::from_millis(SILENCE_MS_MAX));
        let _ = sockopt::set_tcp_user_timeout(stream, SILENCE_MS_MAX as u32);
        let _ = unsent::limit(stream, UNSENT_BYTES_MAX);
        Ok(())
    }

    /// Returns true once the connection has been made.
    pub(crate) fn is_connected(&self) -> io::Result<bool> {
        let Stream::Tcp(stream) = self else { return Ok(true) };
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        match stream.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the peer's address, if it is known.
    pub(crate) fn peer_addr(&self) -> Option<SocketAddr> {
        match self {
            Stream::Tcp(stream) => stream.peer_addr().ok(),
            Stream::Carried(_) => None,
        }
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Stream::Tcp(stream) => stream,
            Stream::Carried(stream) => stream,
        }
    }
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Stream {
        Stream::Tcp(stream)
    }
}

impl From<UnixStream> for Stream {
    fn from(stream: UnixStream) -> Stream {
        Stream::Carried(stream)
    }
}

impl Read for Stream {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(room),
            Stream::Carried(stream) => stream.read(room),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Carried(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for Stream {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        self.source().register(registry, token, interests)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        self.source().reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.source().deregister(registry)
    }
}
