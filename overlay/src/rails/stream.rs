//! One stream of bytes over several connections.
//!
//! The sender divides the stream into numbered segments and gives each to a connection that takes bytes, in turn. So a
//! slow connection gets fewer of them. The receiver takes the segments in the order of their numbers: each connection
//! has its own in this order, so a segment that is not its turn waits in its socket, and nothing is buffered here.
//!
//! The bytes are a link's ciphertext. Neither the preface nor the segments' headers are authenticated: if they are
//! changed, decryption fails, as with any change on TCP.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::{Errno, read};
use rustix::net::{SendAncillaryBuffer, SendFlags, getpeername, send, sendmsg, sockopt};

use super::arriving::Preface;
use super::interface::{Interface, RAILS_MAX};
use super::socket::connect_from;

/// The longest segment, in bytes.
const SEGMENT_BYTES_MAX: usize = 64 << 10;
/// Bytes of a segment's header: its number and its length, of four bytes each.
const HEADER_BYTES: usize = 8;

/// A stream over several connections.
#[derive(Debug)]
pub(crate) struct RailStream {
    rails: Vec<Rail>,
    /// The link's number, until the prefaces are sent.
    number: Option<u128>,
    /// Connections that have not been made yet are no longer awaited if there is another.
    is_late: bool,
    /// The peer may be starting: a refused connection ends the stream, even if others are made.
    may_be_starting: bool,
    was_refused: bool,
    failures: Vec<RailFailure>,
    /// Segments sent, the present one included, and received.
    sent: u32,
    received: u32,
    /// The rail that got the last segment, and what is left of that.
    last: usize,
    segment: Option<Segment>,
}

#[derive(Debug)]
struct Rail {
    socket: OwnedFd,
    /// The interface that this end dialled from.
    interface: Option<Interface>,
    address: Option<SocketAddr>,
    is_connected: bool,
    /// The header of the next segment, as far as it has arrived.
    header: [u8; HEADER_BYTES],
    header_bytes: usize,
    /// Bytes of this segment that have been read.
    read: usize,
}

/// A segment that is being sent.
#[derive(Debug)]
struct Segment {
    rail: usize,
    header: [u8; HEADER_BYTES],
    header_sent: usize,
    left: usize,
}

/// An interface that could not be used for a link.
#[derive(Debug)]
pub(crate) struct RailFailure {
    pub(crate) interface: Interface,
    pub(crate) address: SocketAddr,
    pub(crate) error: io::Error,
}

impl RailStream {
    /// Begins connections for one link, whose random number is `number`. With `may_be_starting`, none is left out
    /// because it is refused: the peer may listen on some of its addresses and not on the others yet.
    ///
    /// # Errors
    /// None can begin.
    pub(crate) fn dial(
        pairs: &[(Option<&Interface>, SocketAddr)],
        number: u128,
        may_be_starting: bool,
    ) -> io::Result<RailStream> {
        let mut stream = RailStream { may_be_starting, ..RailStream::new(Vec::new(), Some(number)) };
        let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for (interface, address) in pairs {
            match connect_from(*interface, *address) {
                Ok(socket) => stream.rails.push(Rail::new(socket, interface.cloned(), Some(*address))),
                Err(error) => {
                    failure = Errno::from_io_error(&error).map_or(failure, io::Error::from);
                    stream.left_out(interface.cloned(), Some(*address), error);
                }
            }
        }
        if stream.rails.is_empty() { Err(failure) } else { Ok(stream) }
    }

    /// Uses accepted connections, in the order of their prefaces.
    pub(super) fn accepted(sockets: impl IntoIterator<Item = OwnedFd>) -> RailStream {
        let rail = |socket| Rail { is_connected: true, ..Rail::new(socket, None, None) };
        RailStream::new(sockets.into_iter().map(rail).collect(), None)
    }

    fn new(rails: Vec<Rail>, number: Option<u128>) -> RailStream {
        RailStream {
            rails,
            number,
            is_late: false,
            may_be_starting: false,
            was_refused: false,
            failures: Vec::new(),
            sent: 0,
            received: 0,
            last: RAILS_MAX,
            segment: None,
        }
    }

    /// Returns the sockets of all connections.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = &OwnedFd> {
        self.rails.iter().map(|rail| &rail.socket)
    }

    /// Returns true while connections are awaited.
    pub(crate) fn is_waiting(&self) -> bool {
        self.number.is_some() && !self.is_late
    }

    /// Stops waiting for further connections as soon as one has been made.
    pub(crate) fn stop_waiting(&mut self) {
        self.is_late = true;
    }

    /// Returns the interfaces that could not be used, once others carry the link.
    pub(crate) fn take_failures(&mut self) -> Vec<RailFailure> {
        if self.number.is_some() { Vec::new() } else { std::mem::take(&mut self.failures) }
    }

    /// Returns true if some connections were made and others refused, so that the stream has ended.
    pub(crate) fn is_partly_refused(&self) -> bool {
        self.may_be_starting && self.was_refused && !self.rails.is_empty()
    }

    fn left_out(&mut self, interface: Option<Interface>, address: Option<SocketAddr>, error: io::Error) {
        self.was_refused |= error.kind() == io::ErrorKind::ConnectionRefused;
        self.failures.extend(RailFailure::new(interface, address, error));
    }

    /// Returns true once the connections have been made, and sends their prefaces then.
    ///
    /// # Errors
    /// None can be made, or one is refused and the peer may be starting.
    pub(crate) fn is_connected(&mut self) -> io::Result<bool> {
        let Some(number) = self.number else { return Ok(true) };
        let mut failure = None;
        for mut rail in std::mem::take(&mut self.rails) {
            match rail.check() {
                Ok(()) => self.rails.push(rail),
                Err(error) => {
                    failure = Errno::from_io_error(&error).map(io::Error::from);
                    self.left_out(rail.interface, rail.address, error);
                }
            }
        }
        let made = self.rails.iter().filter(|rail| rail.is_connected).count();
        if self.rails.is_empty() {
            return Err(failure.unwrap_or_else(|| io::ErrorKind::NotConnected.into()));
        }
        if made == 0 || made < self.rails.len() && !self.is_late {
            return Ok(false);
        }
        if self.is_partly_refused() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (made, late): (Vec<Rail>, Vec<Rail>) =
            std::mem::take(&mut self.rails).into_iter().partition(|rail| rail.is_connected);
        let timed_out = |rail: Rail| RailFailure::new(rail.interface, rail.address, io::ErrorKind::TimedOut.into());
        self.failures.extend(late.into_iter().filter_map(timed_out));
        self.rails = made;
        for (index, rail) in self.rails.iter().enumerate() {
            let preface = Preface { number, index: index as u8, count: self.rails.len() as u8 }.encode();
            // An empty socket takes it whole.
            if send(&rail.socket, &preface, SendFlags::NOSIGNAL)? != preface.len() {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        self.number = None;
        Ok(true)
    }

    /// Receives bytes. Returns how many; none at the stream's end.
    pub(crate) fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < room.len() {
            let result = match self.next_rail() {
                Ok(Some(index)) => self.rails[index].read(&mut room[filled..]),
                Ok(None) => Err(io::ErrorKind::WouldBlock.into()),
                Err(error) => Err(error),
            };
            match result {
                Ok(0) => break,
                Ok(bytes) => {
                    filled += bytes;
                    let is_complete = self.rails.iter_mut().any(Rail::end_segment);
                    self.received = self.received.wrapping_add(is_complete.into());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
                // The next call fails again.
                Err(_) if filled > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// Returns the rail with the next segment, if its header has arrived.
    fn next_rail(&mut self) -> io::Result<Option<usize>> {
        let mut has_ended = false;
        for (index, rail) in self.rails.iter_mut().enumerate() {
            match rail.read_header() {
                Ok(Some(number)) if number == self.received => return Ok(Some(index)),
                Ok(_) => {}
                // Another one may have the rest.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => has_ended = true,
                Err(error) => return Err(error),
            }
        }
        if has_ended { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(None) }
    }

    /// Sends bytes. Returns how many.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(mut segment) = self.segment.take() {
            let result = segment.send(&self.rails, bytes);
            self.segment = Some(segment).filter(|segment| !segment.is_complete());
            return result;
        }
        for turn in 1..=self.rails.len() {
            let rail = (self.last + turn) % self.rails.len();
            let mut segment = Segment::new(rail, self.sent, bytes.len().min(SEGMENT_BYTES_MAX));
            match segment.send(&self.rails, bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && segment.header_sent == 0 => {}
                result => {
                    (self.last, self.sent) = (rail, self.sent.wrapping_add(1));
                    self.segment = Some(segment).filter(|segment| !segment.is_complete());
                    return result;
                }
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }
}

impl Rail {
    fn new(socket: OwnedFd, interface: Option<Interface>, address: Option<SocketAddr>) -> Rail {
        let header = [0; HEADER_BYTES];
        Rail { socket, interface, address, is_connected: false, header, header_bytes: 0, read: 0 }
    }

    /// Notes whether the connection has been made. Fails if it can't be.
    fn check(&mut self) -> io::Result<()> {
        sockopt::socket_error(&self.socket)??;
        match getpeername(&self.socket) {
            Ok(_) => self.is_connected = true,
            Err(Errno::NOTCONN) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Returns the number of the segment whose turn it is here, if its header has arrived.
    fn read_header(&mut self) -> io::Result<Option<u32>> {
        while self.header_bytes < HEADER_BYTES {
            match read(&self.socket, &mut self.header[self.header_bytes..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => self.header_bytes += bytes,
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let (number, length) = self.segment();
        match length {
            1..=SEGMENT_BYTES_MAX => Ok(Some(number)),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "a segment has an impossible length")),
        }
    }

    /// Returns the number and the length of the segment whose header has arrived.
    fn segment(&self) -> (u32, usize) {
        let [a, b, c, d, e, f, g, h] = self.header;
        (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]) as usize)
    }

    /// Reads bytes of the segment.
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let left = self.segment().1 - self.read;
        let bytes = room.len().min(left);
        let bytes = read(&self.socket, &mut room[..bytes])?;
        self.read += bytes;
        Ok(bytes)
    }

    /// Returns true if the segment has been read, once.
    fn end_segment(&mut self) -> bool {
        let is_complete = self.header_bytes == HEADER_BYTES && self.read == self.segment().1;
        if is_complete {
            (self.header_bytes, self.read) = (0, 0);
        }
        is_complete
    }
}

impl Segment {
    fn new(rail: usize, number: u32, length: usize) -> Segment {
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&number.to_le_bytes());
        header[4..].copy_from_slice(&(length as u32).to_le_bytes());
        Segment { rail, header, header_sent: 0, left: length }
    }

    fn is_complete(&self) -> bool {
        self.header_sent == HEADER_BYTES && self.left == 0
    }

    /// Sends what is left, of which `bytes` has the front. Returns how many of `bytes` were sent.
    fn send(&mut self, rails: &[Rail], bytes: &[u8]) -> io::Result<usize> {
        let socket = &rails[self.rail].socket;
        loop {
            let content = &bytes[..bytes.len().min(self.left)];
            let parts = [IoSlice::new(&self.header[self.header_sent..]), IoSlice::new(content)];
            let sent = sendmsg(socket, &parts, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)?;
            let of_header = sent.min(HEADER_BYTES - self.header_sent);
            self.header_sent += of_header;
            self.left -= sent - of_header;
            if sent > of_header {
                return Ok(sent - of_header);
            }
        }
    }
}

impl RailFailure {
    fn new(interface: Option<Interface>, address: Option<SocketAddr>, error: io::Error) -> Option<RailFailure> {
        Some(RailFailure { interface: interface?, address: address?, error })
    }
}
