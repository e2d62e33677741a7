//! Lines of text over an encrypted connection, between a job's front end and its nodes.
//!
//! The stream below is that of the overlay's links: no line is accepted from an end that has not proved that it knows
//! the session's key.

use std::io::{self, Read, Write};

use mio::net::TcpStream;
use thiserror::Error;

use crate::buffer::Buffer;
use crate::noise::{Noise, NoiseError};
use crate::session::{LinkProtection, SessionId, SessionKey};

/// The longest line, in bytes: the addresses of a hundred thousand nodes.
pub const LINE_BYTES_MAX: usize = 8 << 20;
/// Bytes that one call receives.
const RECEIVE_BYTES: usize = 16 << 10;

/// Why a channel ends.
#[derive(Debug, Error)]
pub enum ChannelError {
    /// The connection failed.
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    /// The other end closed it.
    #[error("the other end closed the connection")]
    Closed,
    /// The other end does not know the session's key, or breaks the protocol.
    #[error("{0}")]
    Refused(String),
    /// A line is longer than [`LINE_BYTES_MAX`], or no text.
    #[error("the other end sent a line that is too long, or no text")]
    Line,
}

impl From<NoiseError> for ChannelError {
    fn from(error: NoiseError) -> ChannelError {
        ChannelError::Refused(error.to_string())
    }
}

/// One end of a channel. It never blocks.
#[derive(Debug)]
pub struct Channel {
    /// The connection, to be watched by the owner.
    pub stream: TcpStream,
    noise: Noise,
    /// Lines that wait for the handshake.
    waiting: Vec<u8>,
    received: Buffer,
    plain: Buffer,
    /// Bytes of it that contain no line end.
    searched: usize,
    sending: Buffer,
    /// True if this end has connected.
    connects: bool,
    /// The other end has proved that it knows the key.
    is_proven: bool,
}

impl Channel {
    /// Creates the end that has connected, or is about to.
    ///
    /// # Errors
    /// There is no cryptography.
    pub fn connect(stream: TcpStream, session: SessionId, key: &SessionKey) -> Result<Channel, ChannelError> {
        let mut sending = Buffer::default();
        let noise = Noise::initiator(session, key, LinkProtection::Encrypt, &mut sending)?;
        Ok(Channel::new(stream, noise, sending, true))
    }

    /// Creates the end that was connected to.
    pub fn accept(stream: TcpStream, session: SessionId, key: &SessionKey) -> Channel {
        Channel::new(stream, Noise::responder(session, key, LinkProtection::Encrypt), Buffer::default(), false)
    }

    fn new(stream: TcpStream, noise: Noise, sending: Buffer, connects: bool) -> Channel {
        Channel {
            stream,
            noise,
            waiting: Vec::new(),
            received: Buffer::default(),
            plain: Buffer::default(),
            searched: 0,
            sending,
            connects,
            is_proven: false,
        }
    }

    /// Returns true if the other end has proved that it knows the key.
    pub fn is_proven(&self) -> bool {
        self.is_proven
    }

    /// Queues a line, given without its end, for the next [`Channel::flush`].
    pub fn send_line(&mut self, line: &str) {
        self.waiting.extend_from_slice(line.as_bytes());
        self.waiting.push(b'\n');
    }

    /// Returns the next line, if there is one.
    ///
    /// # Errors
    /// The channel has ended.
    pub fn next_line(&mut self) -> Result<Option<String>, ChannelError> {
        loop {
            if let Some(line) = self.take_line()? {
                if line.is_empty() {
                    continue;
                }
                return Ok(Some(line));
            }
            match self.noise.record(self.received.data(), self.is_proven)? {
                Some(bytes) => {
                    let was_ready = self.noise.is_ready();
                    self.noise.receive(&self.received.data()[..bytes], &mut self.plain, &mut self.sending)?;
                    self.received.consume(bytes);
                    if was_ready {
                        self.is_proven = true;
                    } else if self.noise.is_ready() && self.connects {
                        // The answer is proof for this end; a first, short record is proof for the other.
                        self.is_proven = true;
                        self.noise.send(b"\n", &mut self.sending)?;
                    }
                }
                None if !self.receive()? => return Ok(None),
                None => {}
            }
        }
    }

    /// Sends queued lines. Returns true if all have been sent.
    ///
    /// # Errors
    /// The channel has ended.
    pub fn flush(&mut self) -> Result<bool, ChannelError> {
        if self.noise.is_ready() && !self.waiting.is_empty() {
            self.noise.send(&self.waiting, &mut self.sending)?;
            self.waiting.clear();
        }
        while !self.sending.is_empty() {
            match self.stream.write(self.sending.data()) {
                Ok(0) => return Err(ChannelError::Closed),
                Ok(bytes) => self.sending.consume(bytes),
                Err(error) if is_later(&error) => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.waiting.is_empty())
    }

    fn take_line(&mut self) -> Result<Option<String>, ChannelError> {
        let Some(end) = self.plain.data()[self.searched..].iter().position(|&byte| byte == b'\n') else {
            self.searched = self.plain.len();
            return if self.searched > LINE_BYTES_MAX { Err(ChannelError::Line) } else { Ok(None) };
        };
        let end = self.searched + end;
        self.searched = 0;
        let line = String::from_utf8(self.plain.data()[..end].to_vec()).map_err(|_| ChannelError::Line)?;
        self.plain.consume(end + 1);
        Ok(Some(line))
    }

    /// Receives more. Returns false if the socket has none.
    fn receive(&mut self) -> Result<bool, ChannelError> {
        match self.stream.read(self.received.room(RECEIVE_BYTES)) {
            Ok(0) => Err(ChannelError::Closed),
            Ok(bytes) => {
                self.received.filled(bytes);
                Ok(true)
            }
            Err(error) if is_later(&error) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns true if a socket has no room, no data, or is not connected yet.
fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream as StdStream};
    use std::time::{Duration, Instant};

    use super::*;

    fn pair(keys: [u8; 2]) -> [Channel; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = StdStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let [near, far] = [near, far].map(|stream| {
            stream.set_nonblocking(true).unwrap();
            TcpStream::from_std(stream)
        });
        let [connecting, accepting] = keys.map(|key| SessionKey([key; 32]));
        let near = Channel::connect(near, SessionId(1), &connecting).unwrap();
        [near, Channel::accept(far, SessionId(1), &accepting)]
    }

    /// Exchanges lines until the end with this number receives one, or an end fails.
    fn exchange_until(channels: &mut [Channel; 2], end: usize) -> Result<String, ChannelError> {
        let started = Instant::now();
        loop {
            for (number, channel) in channels.iter_mut().enumerate() {
                channel.flush()?;
                if let Some(line) = channel.next_line()? {
                    assert_eq!(number, end, "{line}");
                    return Ok(line);
                }
            }
            assert!(started.elapsed() < Duration::from_secs(10), "no line arrives");
        }
    }

    #[test]
    fn lines_go_both_ways() {
        let mut channels = pair([7; 2]);
        let long = "x".repeat(LINE_BYTES_MAX - 1);
        channels[0].send_line("first");
        channels[0].send_line(&long);
        assert_eq!(exchange_until(&mut channels, 1).unwrap(), "first");
        assert_eq!(exchange_until(&mut channels, 1).unwrap(), long);
        channels[1].send_line(&long);
        channels[1].send_line("last");
        assert_eq!(exchange_until(&mut channels, 0).unwrap(), long);
        assert_eq!(exchange_until(&mut channels, 0).unwrap(), "last");
        assert!(channels.iter().all(Channel::is_proven));
        let [near, mut far] = channels;
        drop(near);
        // The kernel may deliver the end later.
        let started = Instant::now();
        let ended = loop {
            match far.next_line() {
                Ok(None) if started.elapsed() < Duration::from_secs(10) => std::thread::yield_now(),
                ended => break ended,
            }
        };
        assert!(matches!(ended, Err(ChannelError::Closed)), "{ended:?}");
    }

    #[test]
    fn a_peer_without_the_key_is_refused() {
        let mut channels = pair([7, 8]);
        channels[0].send_line("let me in");
        assert!(matches!(exchange_until(&mut channels, 1), Err(ChannelError::Refused(_))));
        assert!(!channels[1].is_proven());
    }

    #[test]
    fn endless_lines_are_refused() {
        let mut channels = pair([7; 2]);
        channels[0].send_line(&"x".repeat(LINE_BYTES_MAX + 1));
        channels[0].waiting.pop();
        channels[0].waiting.push(b'x');
        assert!(matches!(exchange_until(&mut channels, 1), Err(ChannelError::Line)));
    }
}
