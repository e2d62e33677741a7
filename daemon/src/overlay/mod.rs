//! The links of one rank: to its parent, which it dials, and from its children, which dial it.
//!
//! Strangers can open connections, so those that have not yet proved that they know the session's
//! key are few, short-lived and cost little.

mod buffer;
mod link;
mod noise;
mod refusals;
#[cfg(test)]
mod tests;
mod transfers;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use headwater_abi::wire::Message;
use headwater_proto::{Rank, Time};
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use rustix::net::sockopt;

use self::buffer::Buffer;
pub(crate) use self::link::{ChunkOut, Identity, Outgoing, Traffic};
use self::link::{Link, LinkError, Received};
use self::refusals::Refusals;
pub(crate) use self::transfers::{Arrival, ArrivalError, Transfers};

/// How long a connection may take until its peer has greeted, in milliseconds.
const GREETING_TIMEOUT_MS: Time = 5000;
/// Connections that have not greeted; the oldest gives way to a new one, at first of those that have not
/// got through the handshake.
const STRANGERS_MAX: usize = 64;
/// Connections that are taken in before everything else has its turn: fewer than there is room for, so
/// that each can say something before it gives way.
const ACCEPTS_MAX: usize = 16;
/// Connections that the kernel keeps until they are taken in; it lets others wait for a second or longer.
const WAITING_MAX: i32 = 1024;
/// How long to wait when no connection could be taken in, in milliseconds.
const ACCEPT_RETRY_MS: Time = 100;
/// How often a peer hears from this rank at least, in milliseconds.
const ALIVE_INTERVAL_MS: Time = 2000;
/// How long a peer may be silent, in milliseconds.
const SILENCE_MS_MAX: Time = 10_000;
/// The first and the longest wait before the parent is dialled again, in milliseconds.
const REDIAL_MS: (Time, Time) = (20, 1000);

/// All links of a rank.
#[derive(Debug)]
pub(crate) struct Links {
    identity: Identity,
    listener: TcpListener,
    /// When to look for more connections, though the listener does not say that there are any.
    accept_at: Option<Time>,
    parent: Option<Parent>,
    links: HashMap<Token, Link>,
    by_rank: BTreeMap<Rank, Token>,
    /// Links whose socket may have something to receive.
    readable: VecDeque<Token>,
    /// Links that may have something to send.
    writable: BTreeSet<Token>,
    /// What the node has to be told before anything else.
    events: VecDeque<LinkEvent>,
    traffic: Traffic,
    scratch: Buffer,
    refusals: Refusals,
}

/// The rank to be dialled.
#[derive(Debug)]
struct Parent {
    rank: Rank,
    address: SocketAddr,
    link: Option<Token>,
    dial_at: Time,
    wait_ms: Time,
}

/// What happens on the links.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    /// A link stands.
    Up(Rank),
    /// A link has ended.
    Down(Rank),
    /// A chunk has been taken by the network.
    ChunkSent(Rank),
}

/// The next thing from the links.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it lives for one call; boxing would cost more")]
pub(crate) enum Next<'a> {
    /// Something happened.
    Event(LinkEvent),
    /// A peer's message and, for a chunk, its bytes.
    Message(Rank, Message, &'a [u8]),
}

impl Links {
    /// Links that will come about through `listener` and by dialling the parent among `peers`.
    pub(crate) fn new(
        identity: Identity,
        mut listener: TcpListener,
        peers: &[SocketAddr],
        registry: &Registry,
        token: Token,
    ) -> io::Result<Links> {
        // It listens already, with room for fewer.
        rustix::net::listen(&listener, WAITING_MAX)?;
        registry.register(&mut listener, token, Interest::READABLE)?;
        let parent = identity.topology.parent(identity.rank).map(|rank| Parent {
            rank,
            address: peers[rank.0 as usize],
            link: None,
            dial_at: 0,
            wait_ms: REDIAL_MS.0,
        });
        Ok(Links {
            identity,
            listener,
            accept_at: None,
            parent,
            links: HashMap::new(),
            by_rank: BTreeMap::new(),
            readable: VecDeque::new(),
            writable: BTreeSet::new(),
            events: VecDeque::new(),
            traffic: Traffic::default(),
            scratch: Buffer::default(),
            refusals: Refusals::default(),
        })
    }

    /// True once the parent's link stands; the root has none to wait for.
    pub(crate) fn has_parent(&self) -> bool {
        self.parent.as_ref().is_none_or(|parent| self.by_rank.contains_key(&parent.rank))
    }

    /// Frames and bytes sent.
    pub(crate) fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Takes waiting connections in; what is left of them is for the next [`Links::tick`]. `token` gives
    /// each a number of its own.
    pub(crate) fn accept(&mut self, now: Time, registry: &Registry, mut token: impl FnMut() -> Token) {
        self.accept_at = None;
        for _ in 0..ACCEPTS_MAX {
            match self.listener.accept() {
                Ok((stream, address)) => {
                    self.make_room(now);
                    let link = Link::accept(stream, &self.identity, now);
                    if let Err(error) = self.add(link, token(), registry) {
                        self.refused(now, Some(address), &error);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Of what ended before it was taken in there is nothing to say.
                Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) => {
                }
                Err(error) => {
                    if let Some(untold) = self.refusals.note(now, "not accepted") {
                        tracing::warn!(%error, untold, "no connection could be accepted; a higher limit of open files (ulimit -n) helps");
                    }
                    self.accept_at = Some(now + ACCEPT_RETRY_MS);
                    return;
                }
            }
        }
        self.accept_at = Some(now);
    }

    /// Notes that a socket is ready for something.
    pub(crate) fn ready(&mut self, now: Time, token: Token) {
        let Some(link) = self.links.get_mut(&token) else { return };
        if let Err(error) = link.connected() {
            return self.drop_link(now, token, &error);
        }
        self.writable.insert(token);
        if !self.readable.contains(&token) {
            self.readable.push_back(token);
        }
    }

    /// The next event or message; `None` if the sockets have no more. Links take turns.
    pub(crate) fn next(&mut self, now: Time) -> Option<Next<'_>> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(Next::Event(event));
            }
            let token = self.readable.pop_front()?;
            let Some(link) = self.links.get_mut(&token) else { continue };
            let received = link.receive(&self.identity, now);
            self.traffic.bytes_received += std::mem::take(&mut link.bytes_received);
            match received {
                Ok(None) => drop(self.writable.insert(token)),
                Err(error) => self.drop_link(now, token, &error),
                Ok(Some(Received::Up(rank))) => {
                    self.readable.push_back(token);
                    self.greeted(now, token, rank);
                }
                Ok(Some(Received::Message(rank, message, content))) => {
                    self.readable.push_back(token);
                    return Some(Next::Message(rank, message, self.links[&token].content(content)));
                }
            }
        }
    }

    /// True if [`Links::next`] has something without new readiness.
    pub(crate) fn has_next(&self) -> bool {
        !self.readable.is_empty() || !self.events.is_empty()
    }

    /// Has something sent to a peer; nothing if there is no link.
    pub(crate) fn send(&mut self, now: Time, to: Rank, outgoing: Outgoing) {
        let Some(&token) = self.by_rank.get(&to) else { return };
        let Some(link) = self.links.get_mut(&token) else { return };
        match link.send(outgoing) {
            Ok(()) => drop(self.writable.insert(token)),
            Err(error) => self.drop_link(now, token, &error),
        }
    }

    /// Sends no content of paths that are `left_out`; see [`Link::drop_content`].
    pub(crate) fn drop_content(&mut self, left_out: &dyn Fn(&headwater_abi::Path) -> bool) {
        for (token, link) in &mut self.links {
            link.drop_content(left_out);
            self.writable.insert(*token);
        }
    }

    /// Hands what waits to the sockets. `read` fills a buffer with a chunk's bytes.
    pub(crate) fn flush(&mut self, now: Time, read: &dyn Fn(&ChunkOut, &mut [u8]) -> io::Result<()>) {
        for token in std::mem::take(&mut self.writable) {
            let Some(link) = self.links.get_mut(&token) else { continue };
            match link.flush(now, &mut self.traffic, &mut self.scratch, read) {
                Ok(chunks) => {
                    let sent = link.rank.into_iter().flat_map(|rank| std::iter::repeat_n(rank, chunks));
                    self.events.extend(sent.map(LinkEvent::ChunkSent));
                }
                Err(error) => self.drop_link(now, token, &error),
            }
        }
    }

    /// Closes the link to a peer that broke the protocol.
    pub(crate) fn disconnect(&mut self, now: Time, rank: Rank, reason: &str) {
        tracing::warn!(rank = rank.0, reason, "a peer broke the protocol; its link is closed");
        if let Some(&token) = self.by_rank.get(&rank) {
            self.close(now, token);
        }
    }

    /// Does what is due: connections that wait, signs of life, dead peers, dialling.
    pub(crate) fn tick(&mut self, now: Time, registry: &Registry, mut token: impl FnMut() -> Token) {
        if self.accept_at.is_some_and(|at| now >= at) {
            self.accept(now, registry, &mut token);
        }
        self.dial(now, registry, &mut token);
        let due: Vec<Token> = self.links.iter().filter(|(_, link)| now >= due(link)).map(|(token, _)| *token).collect();
        for token in due {
            let Some(link) = self.links.get_mut(&token) else { continue };
            let silent_ms = now - link.heard_at;
            if link.rank.is_none() || silent_ms >= SILENCE_MS_MAX {
                self.drop_link(now, token, &LinkError::Silent(silent_ms));
            } else {
                link.spoke_at = now;
                // A full queue needs no sign of life: what is in it is one.
                let _ = link.send(Outgoing::Message(Message::Alive));
                self.writable.insert(token);
            }
        }
    }

    /// When [`Links::tick`] is due.
    pub(crate) fn next_tick(&self) -> Option<Time> {
        let dial = self.parent.as_ref().filter(|parent| parent.link.is_none()).map(|parent| parent.dial_at);
        self.links.values().map(due).chain(dial).chain(self.accept_at).min()
    }

    fn dial(&mut self, now: Time, registry: &Registry, token: &mut impl FnMut() -> Token) {
        let Some(parent) = self.parent.as_mut().filter(|p| p.link.is_none() && now >= p.dial_at) else { return };
        parent.dial_at = now + parent.wait_ms;
        parent.wait_ms = (parent.wait_ms * 2).min(REDIAL_MS.1);
        let (rank, token) = (parent.rank, token());
        parent.link = Some(token);
        let link = TcpStream::connect(parent.address).map_err(LinkError::Io);
        let link = link.and_then(|stream| Link::dial(stream, rank, &self.identity, now));
        if let Err(error) = link.and_then(|link| self.add(link, token, registry)) {
            tracing::debug!(rank = rank.0, %error, "the parent can't be dialled");
            self.no_parent(token);
        }
    }

    fn add(&mut self, mut link: Link, token: Token, registry: &Registry) -> Result<(), LinkError> {
        sockopt::set_tcp_nodelay(&link.stream, true).map_err(io::Error::from)?;
        // Half-open connections end even while nothing is sent.
        sockopt::set_socket_keepalive(&link.stream, true).map_err(io::Error::from)?;
        let _ = sockopt::set_tcp_keepidle(&link.stream, Duration::from_millis(SILENCE_MS_MAX));
        let _ = sockopt::set_tcp_user_timeout(&link.stream, SILENCE_MS_MAX as u32);
        registry.register(&mut link.stream, token, Interest::READABLE | Interest::WRITABLE)?;
        self.links.insert(token, link);
        Ok(())
    }

    fn greeted(&mut self, now: Time, token: Token, rank: Rank) {
        // A peer that comes again has lost its earlier link, noticed here or not.
        if let Some(earlier) = self.by_rank.get(&rank).copied() {
            self.close(now, earlier);
        }
        self.by_rank.insert(rank, token);
        if let Some(parent) = &mut self.parent
            && parent.link == Some(token)
        {
            parent.wait_ms = REDIAL_MS.0;
        }
        tracing::debug!(rank = rank.0, "linked");
        self.writable.insert(token);
        self.events.push_back(LinkEvent::Up(rank));
    }

    fn drop_link(&mut self, now: Time, token: Token, error: &LinkError) {
        let Some(link) = self.links.get(&token) else { return };
        let address = link.stream.peer_addr().ok();
        match (link.rank, link.dialled) {
            (Some(rank), _) => tracing::info!(rank = rank.0, %error, "a link ended"),
            (None, Some(rank)) if error.is_of_connection() => {
                tracing::debug!(rank = rank.0, %error, "the parent does not answer yet");
            }
            (None, _) => self.refused(now, address, error),
        }
        self.close(now, token);
    }

    fn refused(&mut self, now: Time, address: Option<SocketAddr>, error: &LinkError) {
        if let Some(untold) = self.refusals.note(now, error.kind()) {
            tracing::warn!(?address, %error, untold, "a connection was refused; further ones of this kind are only counted. If it comes from a node of this job, check that all run the same version of Headwater");
        }
    }

    fn close(&mut self, now: Time, token: Token) {
        let Some(link) = self.links.remove(&token) else { return };
        if let Some(rank) = link.rank
            && self.by_rank.get(&rank) == Some(&token)
        {
            self.by_rank.remove(&rank);
            self.events.push_back(LinkEvent::Down(rank));
        }
        if let Some(parent) = &mut self.parent
            && parent.link == Some(token)
        {
            parent.dial_at = parent.dial_at.max(now);
        }
        self.no_parent(token);
    }

    fn no_parent(&mut self, token: Token) {
        if let Some(parent) = &mut self.parent
            && parent.link == Some(token)
        {
            parent.link = None;
        }
    }

    /// Makes room for one more connection that has not greeted.
    fn make_room(&mut self, now: Time) {
        let strangers = || self.links.iter().filter(|(_, link)| link.rank.is_none() && link.dialled.is_none());
        if strangers().count() >= STRANGERS_MAX
            && let Some(oldest) =
                strangers().min_by_key(|(_, link)| (link.is_promising(), link.opened_at)).map(|(token, _)| *token)
        {
            self.drop_link(now, oldest, &LinkError::Crowded);
        }
    }
}

/// When something has to be done about a link.
fn due(link: &Link) -> Time {
    match link.rank {
        None => link.opened_at + GREETING_TIMEOUT_MS,
        Some(_) => (link.heard_at + SILENCE_MS_MAX).min(link.spoke_at + ALIVE_INTERVAL_MS),
    }
}
