//! One connection to a peer: handshake, greeting, then frames both ways.
//!
//! Queued content is described, not copied, and read when the socket has taken all before it: a slow peer costs no
//! memory for content.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::rc::Rc;

use headwater_abi::wire::{Endpoint, FRAME_BYTES_MAX, Message, RELEASE, VERSION, WireError, greeting_versions};
use headwater_proto::{Forest, Peer, Rank, Time};
use thiserror::Error;

use crate::buffer::Buffer;
use crate::content_out::ContentOut;
use crate::noise::{Noise, NoiseError};
use crate::session::{LinkProtection, SessionId, SessionKey};
use crate::shared::Shared;
use crate::stream::Stream;

/// Messages and chunks that are queued for one peer.
pub(crate) const QUEUE_MAX: usize = 1 << 18;
/// Plaintext that is collected before it is encrypted, in bytes; one frame may exceed it.
const GATHER_BYTES: usize = 256 << 10;
/// Bytes that one call receives from a peer that has not greeted.
const RECEIVE_BYTES_UNAUTHENTICATED: usize = 1 << 10;
/// Bytes that one call receives, at first and at most. The size doubles when a call has filled it.
const RECEIVE_BYTES_MIN: usize = 32 << 10;
const RECEIVE_BYTES_MAX: usize = 512 << 10;
/// The least time between signs of life for a long message that is arriving, in milliseconds.
const SIGN_OF_LIFE_MS: Time = 100;
/// Bytes of a frame's length.
const LENGTH_BYTES: usize = 4;

/// This daemon's identity for its peers.
#[derive(Clone, Debug)]
pub struct Identity {
    /// This node's rank.
    pub rank: Rank,
    /// The trees that all ranks agree on.
    pub forest: Forest,
    /// The session that peers must belong to.
    pub session: SessionId,
    /// The key that peers must know.
    pub key: SessionKey,
    /// How links are protected; the peers' must be the same.
    pub protection: LinkProtection,
}

/// A queued item.
#[derive(Clone, Debug)]
pub(crate) enum Outgoing {
    /// A message.
    Message(Message),
    /// Content, which is read from the store when it is sent, unless another peer that shares it was sent it before.
    Content(ContentOut, Rc<Shared>),
    /// Content that was dropped.
    Nothing,
}

/// Why a link ends.
#[derive(Debug, Error)]
pub(crate) enum LinkError {
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    #[error("the peer closed the connection")]
    Closed,
    #[error(transparent)]
    Noise(#[from] NoiseError),
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("the peer sent a frame of {0} bytes")]
    FrameLength(usize),
    #[error("the peer's greeting does not fit: {0}")]
    Hello(&'static str),
    #[error(
        "the peer runs headwater {release} (wire version {version}), and this node {RELEASE} ({VERSION}): install one \
         of them on both"
    )]
    OtherVersion { release: Box<str>, version: u32 },
    #[error("the peer was silent for {0} ms")]
    Silent(Time),
    #[error("it did not greet, and there are more that might")]
    Crowded,
    #[error("the peer takes too little of what is sent")]
    QueueFull,
}

impl LinkError {
    /// Returns its kind; each kind is reported once.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            LinkError::Io(_) => "broke",
            LinkError::Closed => "closed",
            LinkError::Noise(error) => error.kind(),
            LinkError::Wire(_) => "no message",
            LinkError::FrameLength(_) => "frame length",
            LinkError::Hello(why) => why,
            LinkError::OtherVersion { .. } => "another version",
            LinkError::Silent(_) => "silent",
            LinkError::Crowded => "crowded",
            LinkError::QueueFull => "slow",
        }
    }

    /// Returns true if no process listens at the address.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, LinkError::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused)
    }

    /// Returns true if the connection failed, and false if the peer broke the protocol.
    pub(crate) fn is_of_connection(&self) -> bool {
        matches!(self, LinkError::Io(_) | LinkError::Closed | LinkError::Silent(_))
    }
}

/// What a link has received.
#[allow(clippy::large_enum_variant, reason = "it lives for one call; boxing would cost more")]
pub(crate) enum Received {
    /// The peer has greeted, perhaps with an endpoint for the upgrade.
    Up(Peer, Option<Endpoint>),
    /// A message and the range of its content: see [`Link::content`].
    Message(Peer, Message, Range<usize>),
}

/// Frames and bytes sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// Messages sent, chunks included.
    pub messages: u64,
    /// Bytes sent, over TCP and libfabric.
    pub bytes: u64,
    /// Of these, over libfabric.
    pub carried_bytes: u64,
    /// Bytes received.
    pub bytes_received: u64,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) stream: Stream,
    /// The rank that this end dialled; `None` if the peer dialled.
    pub(crate) dialled: Option<Rank>,
    /// The peer, once it has greeted.
    pub(crate) rank: Option<Rank>,
    pub(crate) opened_at: Time,
    pub(crate) received_at: Time,
    pub(crate) sent_at: Time,
    /// The endpoint that this end's greeting offers, until the peer has greeted.
    pub(crate) offered: Option<Endpoint>,
    /// This end greets after the peer: see [`Link::greet`].
    pub(crate) greets_last: bool,
    /// The peer has greeted, and until this time a carried link may replace this one.
    pub(crate) upgrade_until: Option<Time>,
    /// Bytes received that have not been counted yet.
    pub(crate) bytes_received: u64,
    /// When the last message was returned.
    delivered_at: Time,
    noise: Noise,
    is_connecting: bool,
    ciphertext: Buffer,
    receive_bytes: usize,
    plain: Buffer,
    /// Bytes of the frame that was returned last, at the front of `plain`.
    handed_out: usize,
    queue: VecDeque<Outgoing>,
    sending: Buffer,
    /// Chunks in `sending`.
    chunks_sending: usize,
}

impl Link {
    /// Creates a link on a connection that is being made to `rank`.
    pub(crate) fn dial(stream: impl Into<Stream>, rank: Rank, now: Time) -> Link {
        let mut link = Link::new(stream.into(), Noise::Silent, now);
        (link.dialled, link.is_connecting) = (Some(rank), true);
        link
    }

    /// Sets the endpoint that this end's greeting offers.
    pub(crate) fn offering(self, endpoint: Option<Endpoint>) -> Link {
        Link { offered: endpoint, ..self }
    }

    /// Creates a link on a connection that a peer has made.
    pub(crate) fn accept(stream: impl Into<Stream>, identity: &Identity, now: Time) -> Link {
        Link::new(stream.into(), Noise::responder(identity.session, &identity.key, identity.protection), now)
    }

    fn new(stream: Stream, noise: Noise, now: Time) -> Link {
        Link {
            stream,
            dialled: None,
            rank: None,
            opened_at: now,
            received_at: now,
            sent_at: now,
            offered: None,
            greets_last: false,
            upgrade_until: None,
            bytes_received: 0,
            delivered_at: now,
            noise,
            is_connecting: false,
            ciphertext: Buffer::default(),
            receive_bytes: RECEIVE_BYTES_UNAUTHENTICATED,
            plain: Buffer::default(),
            handed_out: 0,
            queue: VecDeque::new(),
            sending: Buffer::default(),
            chunks_sending: 0,
        }
    }

    /// Queues an item. A sign of life precedes all but the greeting.
    pub(crate) fn send(&mut self, outgoing: Outgoing) -> Result<(), LinkError> {
        if self.queue.len() >= QUEUE_MAX {
            return Err(LinkError::QueueFull);
        }
        if matches!(outgoing, Outgoing::Message(Message::Alive)) {
            let is_greeting = matches!(self.queue.front(), Some(Outgoing::Message(Message::Hello { .. })));
            self.queue.insert(usize::from(is_greeting), outgoing);
        } else {
            self.queue.push_back(outgoing);
        }
        Ok(())
    }

    /// Drops queued content of paths that are `left_out`; it counts as sent.
    pub(crate) fn drop_content(&mut self, left_out: &dyn Fn(&headwater_abi::Path) -> bool) {
        for outgoing in &mut self.queue {
            if matches!(outgoing, Outgoing::Content(content, _) if left_out(&content.path)) {
                *outgoing = Outgoing::Nothing;
            }
        }
    }

    /// Returns the next message or greeting; `None` if the socket has no more.
    pub(crate) fn receive(&mut self, identity: &Identity, now: Time) -> Result<Option<Received>, LinkError> {
        self.plain.consume(std::mem::take(&mut self.handed_out));
        while !self.has_frame()? {
            if !self.take_record(identity)? && !self.fill(now)? {
                return Ok(self.sign_of_life(now));
            }
        }
        self.delivered_at = now;
        let end = LENGTH_BYTES + self.frame_bytes().unwrap_or(0);
        self.handed_out = end;
        let body = &self.plain.data()[LENGTH_BYTES..end];
        if self.rank.is_none()
            && let Some((version, release)) = greeting_versions(body).filter(|(version, _)| *version != VERSION)
        {
            return Err(LinkError::OtherVersion { release: release.into(), version });
        }
        let (message, content) = Message::decode(body)?;
        let content = end - content.len()..end;
        if let Some(peer) = self.peer() {
            return Ok(Some(Received::Message(peer, message, content)));
        }
        let (rank, endpoint) = check_hello(message, identity, self.dialled)?;
        self.rank = Some(rank);
        self.receive_bytes = RECEIVE_BYTES_MIN;
        Ok(self.peer().map(|peer| Received::Up(peer, endpoint)))
    }

    /// Returns the peer, once it has greeted: the end that was dialled is the parent.
    pub(crate) fn peer(&self) -> Option<Peer> {
        self.rank.map(|rank| if self.dialled.is_some() { Peer::Parent(rank) } else { Peer::Child(rank) })
    }

    /// Returns a sign of life if a parent is sending a long message.
    fn sign_of_life(&mut self, now: Time) -> Option<Received> {
        let peer = self
            .peer()
            .filter(|_| self.dialled.is_some() && self.received_at >= self.delivered_at + SIGN_OF_LIFE_MS)?;
        self.delivered_at = now;
        Some(Received::Message(peer, Message::Alive, 0..0))
    }

    /// Returns true once the connection has been made.
    pub(crate) fn has_connected(&self) -> bool {
        !self.is_connecting
    }

    /// Returns true after the handshake, which few unauthenticated peers complete.
    pub(crate) fn has_finished_handshake(&self) -> bool {
        self.noise.is_ready()
    }

    /// Returns the bytes of the content that was received last.
    pub(crate) fn content(&self, range: Range<usize>) -> &[u8] {
        &self.plain.data()[range]
    }

    /// Returns the bytes of memory for this peer.
    #[cfg(test)]
    pub(crate) fn buffered(&self) -> usize {
        self.sending.capacity() + self.ciphertext.capacity() + self.plain.capacity()
    }

    /// Sends until the socket is full. `read` fills a buffer with content. Returns how many chunks the socket has
    /// taken.
    pub(crate) fn flush(
        &mut self,
        now: Time,
        traffic: &mut Traffic,
        scratch: &mut Buffer,
        read: &dyn Fn(&ContentOut, &mut [u8]) -> io::Result<()>,
    ) -> Result<usize, LinkError> {
        let mut chunks = 0;
        if self.is_connecting {
            return Ok(0);
        }
        loop {
            while !self.sending.is_empty() {
                match self.stream.write(self.sending.data()) {
                    Ok(0) => return Err(LinkError::Closed),
                    Ok(bytes) => {
                        self.sending.consume(bytes);
                        self.sent_at = now;
                        traffic.bytes += bytes as u64;
                        traffic.carried_bytes += if self.stream.is_carried() { bytes as u64 } else { 0 };
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(chunks),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error.into()),
                }
            }
            chunks += std::mem::take(&mut self.chunks_sending);
            if self.queue.is_empty() || !self.noise.is_ready() {
                return Ok(chunks);
            }
            traffic.messages += self.gather(scratch, read)?;
            self.noise.send(scratch.data(), &mut self.sending)?;
            scratch.consume(scratch.len());
        }
    }

    /// Begins the handshake once the connection has been made.
    pub(crate) fn connected(&mut self, identity: &Identity) -> Result<(), LinkError> {
        if self.is_connecting && self.stream.is_connected()? {
            self.is_connecting = false;
            self.noise = Noise::initiator(identity.session, &identity.key, identity.protection, &mut self.sending)?;
        }
        Ok(())
    }

    /// Encodes queued items, up to about [`GATHER_BYTES`]. Returns the number of frames. Shared content is encrypted at
    /// once, with all before it.
    fn gather(
        &mut self,
        scratch: &mut Buffer,
        read: &dyn Fn(&ContentOut, &mut [u8]) -> io::Result<()>,
    ) -> Result<u64, LinkError> {
        // A link that broke may have left data.
        scratch.consume(scratch.len());
        let mut frames = 0;
        while scratch.len() + self.sending.len() < GATHER_BYTES
            && let Some(outgoing) = self.queue.pop_front()
        {
            match outgoing {
                Outgoing::Message(message) => {
                    put_frame(scratch, &message, 0);
                    if matches!(message, Message::Hello { .. }) {
                        // It needs its own record, because longer ones are refused before the greeting.
                        return Ok(frames + 1);
                    }
                }
                Outgoing::Nothing => {
                    self.chunks_sending += 1;
                    continue;
                }
                Outgoing::Content(out, shared) => {
                    self.chunks_sending += 1;
                    let bytes = out.bytes();
                    let header = put_frame(scratch, &out.message, bytes);
                    let content = shared.get(bytes, |room| read(&out, room));
                    let added = content.and_then(|content| match content {
                        Some(content) => Ok(Some(content)),
                        None => read(&out, scratch.room(bytes)).map(|()| None),
                    });
                    match added {
                        Ok(Some(content)) => {
                            self.noise.send(scratch.data(), &mut self.sending)?;
                            scratch.consume(scratch.len());
                            self.noise.send(content, &mut self.sending)?;
                        }
                        Ok(None) => scratch.filled(bytes),
                        Err(error) => {
                            // Evicted in between; the node's next message reports it.
                            tracing::debug!(path = %out.path, %error, "queued content is no longer in the store");
                            scratch.take_back(header);
                            let Some(message) = out.instead() else { continue };
                            put_frame(scratch, &message, 0);
                        }
                    }
                }
            }
            frames += 1;
        }
        Ok(frames)
    }

    /// Returns the length of the next frame, once it has arrived.
    fn frame_bytes(&self) -> Option<usize> {
        let length = self.plain.data().first_chunk::<LENGTH_BYTES>()?;
        Some(u32::from_le_bytes(*length) as usize)
    }

    fn has_frame(&self) -> Result<bool, LinkError> {
        let Some(bytes) = self.frame_bytes() else { return Ok(false) };
        if bytes > FRAME_BYTES_MAX {
            return Err(LinkError::FrameLength(bytes));
        }
        Ok(self.plain.len() >= LENGTH_BYTES + bytes)
    }

    /// Decrypts the next record. Returns false if none is complete.
    fn take_record(&mut self, identity: &Identity) -> Result<bool, LinkError> {
        let Some(bytes) = self.noise.record(self.ciphertext.data(), self.rank.is_some())? else { return Ok(false) };
        let was_ready = self.noise.is_ready();
        self.noise.receive(&self.ciphertext.data()[..bytes], &mut self.plain, &mut self.sending)?;
        self.ciphertext.consume(bytes);
        if !was_ready && self.noise.is_ready() && !self.greets_last {
            self.greet(identity, self.offered.clone());
        }
        Ok(true)
    }

    /// Queues this end's greeting, with an endpoint for the upgrade.
    pub(crate) fn greet(&mut self, identity: &Identity, endpoint: Option<Endpoint>) {
        self.queue.push_front(Outgoing::Message(hello(identity, self.dialled.is_some(), endpoint)));
    }

    /// Receives more ciphertext. Returns false if the socket has none.
    fn fill(&mut self, now: Time) -> Result<bool, LinkError> {
        if self.is_connecting {
            return Ok(false);
        }
        let result = self.stream.read(self.ciphertext.room(self.receive_bytes));
        match result {
            Ok(0) => Err(LinkError::Closed),
            Ok(bytes) => {
                self.ciphertext.filled(bytes);
                if bytes == self.receive_bytes && self.rank.is_some() {
                    self.receive_bytes = (self.receive_bytes * 2).min(RECEIVE_BYTES_MAX);
                }
                self.bytes_received += bytes as u64;
                self.received_at = now;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if self.rank.is_none() {
                    // Unauthenticated peers cost no memory.
                    self.ciphertext.release();
                    self.plain.release();
                }
                Ok(false)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

fn hello(identity: &Identity, is_child: bool, endpoint: Option<Endpoint>) -> Message {
    Message::Hello {
        version: VERSION,
        release: RELEASE.into(),
        session: identity.session.0,
        rank: identity.rank.0,
        forest: identity.forest.fingerprint(),
        is_child,
        endpoint,
    }
}

/// Checks a greeting. Returns the peer's rank and endpoint. The rank must be the one that was dialled, or any other if
/// the peer dialled.
fn check_hello(
    message: Message,
    identity: &Identity,
    dialled: Option<Rank>,
) -> Result<(Rank, Option<Endpoint>), LinkError> {
    let Message::Hello { session, rank, forest, is_child, endpoint, .. } = message else {
        return Err(LinkError::Hello("it is missing"));
    };
    let is_expected = match dialled {
        Some(dialled) => rank == dialled.0,
        None => rank < identity.forest.ranks() && rank != identity.rank.0,
    };
    let checks = [
        (session == identity.session.0, "another session"),
        (forest == identity.forest.fingerprint(), "another topology"),
        (is_expected, "its rank is no neighbour's"),
        (is_child == dialled.is_none(), "the dialling end must be the child"),
    ];
    match checks.into_iter().find(|(holds, _)| !holds) {
        Some((_, why)) => Err(LinkError::Hello(why)),
        None => Ok((Rank(rank), endpoint)),
    }
}

/// Appends a frame without its content, which must follow. Returns the number of bytes.
fn put_frame(out: &mut Buffer, message: &Message, content_bytes: usize) -> usize {
    let body = message.encode();
    out.put(&((body.len() + content_bytes) as u32).to_le_bytes());
    out.put(&body);
    LENGTH_BYTES + body.len()
}
