//! Accepted connections, until all of a link have arrived. Each begins with a preface that says which link it belongs
//! to. Any host can send one, so they are limited in number and time.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use headwater_proto::Time;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use super::interface::RAILS_MAX;

/// Bytes of a preface.
const PREFACE_BYTES: usize = 18;
/// Connections that wait for others; a further one replaces the oldest.
const ARRIVING_MAX: usize = 64;
/// How long a connection may wait, in milliseconds.
const ARRIVING_MS_MAX: Time = 5000;

/// The first bytes of a connection: the link's random number, the connection's index, and how many the link has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Preface {
    pub(super) number: u128,
    pub(super) index: u8,
    pub(super) count: u8,
}

/// The connections that have arrived.
#[derive(Debug, Default)]
pub(super) struct Arriving {
    waiting: BTreeMap<Token, Waiting>,
    /// The tokens of complete links, in the order of their connections.
    complete: Vec<Vec<Token>>,
}

#[derive(Debug)]
struct Waiting {
    socket: OwnedFd,
    since: Time,
    bytes: [u8; PREFACE_BYTES],
    length: usize,
    preface: Option<Preface>,
}

impl Preface {
    pub(super) fn encode(self) -> [u8; PREFACE_BYTES] {
        let mut bytes = [0; PREFACE_BYTES];
        bytes[..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..].copy_from_slice(&[self.index, self.count]);
        bytes
    }

    /// Decodes a preface; `None` if it is impossible.
    fn decode(bytes: &[u8; PREFACE_BYTES]) -> Option<Preface> {
        let (number, rest) = bytes.split_first_chunk::<16>()?;
        let &[index, count] = rest else { return None };
        let preface = Preface { number: u128::from_le_bytes(*number), index, count };
        (index < count && usize::from(count) <= RAILS_MAX).then_some(preface)
    }
}

impl Arriving {
    /// Adds an accepted connection.
    pub(super) fn add(&mut self, now: Time, socket: OwnedFd, token: Token, registry: &Registry) -> io::Result<()> {
        if self.waiting.len() >= ARRIVING_MAX {
            self.waiting.pop_first();
        }
        registry.register(&mut SourceFd(&socket.as_raw_fd()), token, Interest::READABLE)?;
        let (bytes, length, preface) = ([0; PREFACE_BYTES], 0, None);
        self.waiting.insert(token, Waiting { socket, since: now, bytes, length, preface });
        Ok(())
    }

    /// Handles readiness. Returns false if the token is none of these connections'.
    pub(super) fn ready(&mut self, token: Token) -> bool {
        let Some(waiting) = self.waiting.get_mut(&token) else { return false };
        match waiting.read() {
            Ok(Some(preface)) => self.note(preface),
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(%error, "a connection ended before its link was complete");
                self.waiting.remove(&token);
            }
        }
        true
    }

    /// Notes the link of this preface if all its connections are here.
    fn note(&mut self, Preface { number, count, .. }: Preface) {
        let same = |(token, waiting): (&Token, &Waiting)| {
            let preface = waiting.preface.filter(|preface| (preface.number, preface.count) == (number, count))?;
            Some((preface.index, *token))
        };
        let found: BTreeMap<u8, Token> = self.waiting.iter().filter_map(same).collect();
        let tokens: Vec<Token> = found.into_values().collect();
        if tokens.len() == usize::from(count) && !self.complete.contains(&tokens) {
            self.complete.push(tokens);
        }
    }

    /// Returns the sockets of the links that are complete, which have no token any more, and drops connections that
    /// have waited too long.
    pub(super) fn take_complete(&mut self, now: Time, registry: &Registry) -> Vec<Vec<OwnedFd>> {
        let complete = std::mem::take(&mut self.complete);
        let links = complete.into_iter().filter_map(|tokens| {
            let waiting = tokens.iter().map(|token| self.waiting.remove(token)).collect::<Option<Vec<_>>>()?;
            let sockets: Vec<OwnedFd> = waiting.into_iter().map(|waiting| waiting.socket).collect();
            let free = |socket: &OwnedFd| registry.deregister(&mut SourceFd(&socket.as_raw_fd())).is_ok();
            sockets.iter().all(free).then_some(sockets)
        });
        let links = links.collect();
        self.waiting.retain(|_, waiting| now < waiting.since + ARRIVING_MS_MAX);
        links
    }

    /// Returns when [`Arriving::take_complete`] is due.
    pub(super) fn next(&self) -> Option<Time> {
        let expiry = self.waiting.values().map(|waiting| waiting.since + ARRIVING_MS_MAX);
        if self.complete.is_empty() { expiry.min() } else { Some(0) }
    }
}

impl Waiting {
    /// Reads more of the preface. Returns it when it becomes complete.
    fn read(&mut self) -> io::Result<Option<Preface>> {
        while self.length < PREFACE_BYTES {
            match rustix::io::read(&self.socket, &mut self.bytes[self.length..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => self.length += bytes,
                Err(rustix::io::Errno::AGAIN) => return Ok(None),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if self.preface.is_some() {
            return Ok(None);
        }
        let preface = Preface::decode(&self.bytes);
        self.preface = Some(preface.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it has no preface"))?);
        Ok(self.preface)
    }
}
