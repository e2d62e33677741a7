//! The links of one rank: to its parents, which it dials, and from its children, which dial it. The node chooses the
//! parents. Two ranks may have a link in each direction.
//!
//! Any host can open connections, so unauthenticated peers are limited in number, time and cost.

mod ends;
pub mod probe;
pub mod state;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;

use headwater_abi::wire::Message;
use headwater_proto::{Forest, Peer, Rank, Time};
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};

use self::ends::{Ends, cause, not_dialled};
use crate::addresses::Addresses;
use crate::buffer::Buffer;
use crate::content_out::ContentOut;
use crate::dialling::Dialling;
use crate::link::{Identity, Link, LinkError, Outgoing, Received, Traffic};
use crate::rails::RailState;
use crate::refusals::Refusals;
use crate::shared::Sharing;
use crate::stream::{SILENCE_MS_MAX, Stream};
use crate::upgrading::Upgrading;

/// How long a connection may take until its peer has greeted, in milliseconds.
const GREETING_TIMEOUT_MS: Time = 5000;
/// Unauthenticated connections; a new one replaces the oldest, preferably one before the end of its handshake.
const UNAUTHENTICATED_MAX: usize = 64;
/// Connections that are accepted before other events: fewer than [`UNAUTHENTICATED_MAX`], so that each can greet before
/// it is replaced.
const ACCEPTS_MAX: usize = 8;
/// Unauthenticated connections that are handled between two ticks.
const UNAUTHENTICATED_HANDLED_MAX: usize = 16;
/// Connections that the kernel queues for accept(); it delays others for a second or longer.
const WAITING_MAX: i32 = 1024;
/// How long to wait after a failed accept(), in milliseconds.
const ACCEPT_RETRY_MS: Time = 100;
/// The longest time between two messages to a peer, in milliseconds.
const ALIVE_INTERVAL_MS: Time = 2000;

/// All links of a rank.
#[derive(Debug)]
pub struct Links {
    pub(crate) identity: Identity,
    listeners: Vec<TcpListener>,
    /// When to accept again without readiness of the listener.
    accept_at: Option<Time>,
    /// Where each rank listens.
    addresses: Addresses,
    pub(crate) dialling: Dialling,
    pub(crate) links: HashMap<Token, Link>,
    by_peer: BTreeMap<Peer, Token>,
    ends: Ends,
    /// Links with readable sockets.
    readable: VecDeque<Token>,
    /// Unauthenticated links with readable sockets, and how many of them have been handled since the last tick.
    readable_unauthenticated: VecDeque<Token>,
    unauthenticated_handled: usize,
    /// Links that may have queued items.
    pub(crate) writable: BTreeSet<Token>,
    /// Events for the node, which precede messages.
    events: VecDeque<LinkEvent>,
    traffic: Traffic,
    scratch: Buffer,
    sharing: Sharing,
    refusals: Refusals,
    pub(crate) upgrading: Upgrading,
    /// The use of several interfaces, if it is wanted.
    pub(crate) rails: Option<RailState>,
}

/// An event of a link.
#[derive(Debug)]
pub enum LinkEvent {
    /// A link has been greeted.
    Up(Peer),
    /// A link has ended.
    Down(Peer),
    /// No process listens at the address of a rank that was dialled.
    Absent(Rank),
    /// The network has taken a chunk or short content.
    ChunkSent(Peer),
}

impl LinkEvent {
    fn peer(&self) -> Peer {
        match *self {
            LinkEvent::Up(peer) | LinkEvent::Down(peer) | LinkEvent::ChunkSent(peer) => peer,
            LinkEvent::Absent(rank) => Peer::Parent(rank),
        }
    }
}

/// The next item for the node.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it lives for one call; boxing would cost more")]
pub enum Next<'a> {
    /// An event.
    Event(LinkEvent),
    /// A peer's message and the bytes of its content.
    Message(Peer, Message, &'a [u8]),
}

impl Links {
    /// Creates the set of links, which `listeners` accept or which are dialled at `addresses`.
    pub fn new(
        identity: Identity,
        mut listeners: Vec<TcpListener>,
        addresses: impl Into<Addresses>,
        registry: &Registry,
        token: Token,
    ) -> io::Result<Links> {
        for listener in &mut listeners {
            // The socket listens already, with a shorter queue.
            rustix::net::listen(&*listener, WAITING_MAX)?;
            registry.register(listener, token, Interest::READABLE)?;
        }
        Ok(Links {
            identity,
            listeners,
            accept_at: None,
            addresses: addresses.into(),
            dialling: Dialling::default(),
            links: HashMap::new(),
            by_peer: BTreeMap::new(),
            ends: Ends::default(),
            readable: VecDeque::new(),
            readable_unauthenticated: VecDeque::new(),
            unauthenticated_handled: 0,
            writable: BTreeSet::new(),
            events: VecDeque::new(),
            traffic: Traffic::default(),
            scratch: Buffer::default(),
            sharing: Sharing::default(),
            refusals: Refusals::default(),
            upgrading: Upgrading::default(),
            rails: None,
        })
    }

    /// Dials this rank until a link is up or [`Links::hang_up`] is called.
    pub fn dial(&mut self, now: Time, rank: Rank) {
        self.dialling.add(now, rank);
    }

    /// Ends the link to this rank, or the attempts to dial it, and drops its events.
    pub fn hang_up(&mut self, now: Time, rank: Rank) {
        self.dialling.remove(rank);
        self.forget_carried(now, rank);
        self.events.retain(|event| event.peer() != Peer::Parent(rank));
    }

    /// Returns true while the links to all dialled ranks are up; a root may have none.
    pub fn has_parents(&self) -> bool {
        self.dialling.ranks().all(|rank| self.by_peer.contains_key(&Peer::Parent(rank)))
    }

    /// Returns true if no dialled rank is about to link: all are linked, or have no listener. A root may dial none.
    pub fn has_dialled_all(&self) -> bool {
        self.dialling.awaited().all(|rank| self.by_peer.contains_key(&Peer::Parent(rank)))
    }

    /// Returns the trees that all ranks agree on.
    pub fn forest(&self) -> &Forest {
        &self.identity.forest
    }

    /// Returns where a rank listens, for messages.
    pub fn address(&self, rank: Rank) -> Option<String> {
        self.addresses.shown(rank)
    }

    /// Returns true if this rank has a link to any parent.
    pub fn has_a_parent(&self) -> bool {
        self.by_peer.keys().any(|peer| matches!(peer, Peer::Parent(_)))
    }

    /// Returns the traffic so far.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Accepts waiting connections; the next [`Links::tick`] accepts the rest. `token` returns a new token for each.
    pub fn accept(&mut self, now: Time, registry: &Registry, mut token: impl FnMut() -> Token) {
        self.accept_at = None;
        for listener in 0..self.listeners.len() {
            let again = self.accept_at_listener(now, listener, registry, &mut token);
            self.accept_at = self.accept_at.or(again);
        }
    }

    /// Accepts connections at one of the listeners. Returns when to accept again without its readiness.
    fn accept_at_listener(
        &mut self,
        now: Time,
        listener: usize,
        registry: &Registry,
        token: &mut impl FnMut() -> Token,
    ) -> Option<Time> {
        for _ in 0..ACCEPTS_MAX {
            match self.listeners[listener].accept() {
                Ok((stream, address)) => {
                    if let Some(rails) = &mut self.rails {
                        if let Err(error) = rails.arrive(now, stream, token(), registry) {
                            self.refused(now, Some(address), &error.into());
                        }
                        continue;
                    }
                    self.make_room(now);
                    let link = Link::accept(stream, &self.identity, now);
                    self.accepted(now, link, token(), registry, Some(address));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                // A connection that ended before accept() is not reported.
                Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) => {
                }
                Err(error) => {
                    if let Some(unreported) = self.refusals.note(now, "not accepted") {
                        tracing::warn!(%error, unreported, "no connection can be accepted. Raise the limit of open files (ulimit -n)");
                    }
                    return Some(now + ACCEPT_RETRY_MS);
                }
            }
        }
        Some(now)
    }

    /// Adds a link that a peer has dialled.
    pub(crate) fn accepted(
        &mut self,
        now: Time,
        mut link: Link,
        token: Token,
        registry: &Registry,
        address: Option<SocketAddr>,
    ) {
        link.greets_last = self.upgrading.offer().is_some();
        if let Err(error) = self.add(link, token, registry) {
            self.refused(now, address, &error);
        }
    }

    /// Handles the readiness of a socket.
    pub fn ready(&mut self, now: Time, token: Token) {
        if self.rails.as_mut().is_some_and(|rails| rails.ready(token)) || !self.connected(now, token) {
            return;
        }
        let Some(link) = self.links.get(&token) else { return };
        let is_unauthenticated = link.rank.is_none() && link.dialled.is_none();
        let queue = if is_unauthenticated { &mut self.readable_unauthenticated } else { &mut self.readable };
        if !queue.contains(&token) {
            queue.push_back(token);
        }
    }

    /// Returns the next event or message; `None` if the sockets have no more, or only unauthenticated ones that wait
    /// for the next [`Links::tick`]. Links take turns.
    pub fn next(&mut self, now: Time) -> Option<Next<'_>> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(Next::Event(event));
            }
            // One unauthenticated link in any case, and more when the peers have no more.
            let first = (self.unauthenticated_handled == 0).then(|| self.next_unauthenticated()).flatten();
            let token = first.or_else(|| self.readable.pop_front()).or_else(|| self.next_unauthenticated())?;
            let Some(link) = self.links.get_mut(&token) else { continue };
            let received = link.receive(&self.identity, now);
            self.traffic.bytes_received += std::mem::take(&mut link.bytes_received);
            match received {
                Ok(None) => drop(self.writable.insert(token)),
                Err(error) => self.drop_link(now, token, &error),
                Ok(Some(Received::Up(peer, endpoint))) => {
                    self.readable.push_back(token);
                    self.greeted(now, token, peer, endpoint);
                }
                Ok(Some(Received::Message(_, message, _))) if link.upgrade_until.is_some() => {
                    if message != Message::Alive {
                        self.drop_link(now, token, &LinkError::Hello("it goes on where it is held"));
                        continue;
                    }
                    self.readable.push_back(token);
                    self.fall_back_to_tcp(now, token);
                }
                Ok(Some(Received::Message(peer, message, content))) => {
                    self.readable.push_back(token);
                    return Some(Next::Message(peer, message, self.links[&token].content(content)));
                }
            }
        }
    }

    /// Returns the next unauthenticated link, up to the limit: handshakes are expensive and must not delay peers.
    fn next_unauthenticated(&mut self) -> Option<Token> {
        if self.unauthenticated_handled == UNAUTHENTICATED_HANDLED_MAX {
            return None;
        }
        let token = self.readable_unauthenticated.pop_front()?;
        self.unauthenticated_handled += 1;
        Some(token)
    }

    /// Returns true if [`Links::next`] has items without new readiness.
    pub fn has_next(&self) -> bool {
        !self.readable.is_empty() || !self.readable_unauthenticated.is_empty() || !self.events.is_empty()
    }

    /// Queues a message to a peer; drops it without a link.
    pub fn send(&mut self, now: Time, to: Peer, message: Message) {
        self.put(now, to, Outgoing::Message(message));
    }

    /// As [`Links::send`], with content.
    pub fn send_content(&mut self, now: Time, to: Peer, content: ContentOut) {
        let shared = self.sharing.of(&content);
        self.put(now, to, Outgoing::Content(content, shared));
    }

    fn put(&mut self, now: Time, to: Peer, outgoing: Outgoing) {
        let Some(&token) = self.by_peer.get(&to) else { return };
        let Some(link) = self.links.get_mut(&token) else { return };
        match link.send(outgoing) {
            Ok(()) => drop(self.writable.insert(token)),
            Err(error) => self.drop_link(now, token, &error),
        }
    }

    /// Drops queued content of paths that are `left_out`.
    pub fn drop_content(&mut self, left_out: &dyn Fn(&headwater_abi::Path) -> bool) {
        for (token, link) in &mut self.links {
            link.drop_content(left_out);
            self.writable.insert(*token);
        }
    }

    /// Sends queued items. `read` fills a buffer with content.
    pub fn flush(&mut self, now: Time, read: &dyn Fn(&ContentOut, &mut [u8]) -> io::Result<()>) {
        for token in std::mem::take(&mut self.writable) {
            let Some(link) = self.links.get_mut(&token) else { continue };
            match link.flush(now, &mut self.traffic, &mut self.scratch, read) {
                Ok(chunks) => {
                    let sent = link.peer().into_iter().flat_map(|peer| std::iter::repeat_n(peer, chunks));
                    self.events.extend(sent.map(LinkEvent::ChunkSent));
                }
                Err(error) => self.drop_link(now, token, &error),
            }
        }
    }

    /// Closes the link to a peer that broke the protocol.
    pub fn disconnect(&mut self, now: Time, peer: Peer, reason: &str) {
        tracing::warn!(?peer, reason, "a peer broke the protocol; its link is closed");
        if let Some(&token) = self.by_peer.get(&peer) {
            self.ends.note(now, peer, format!("it broke the protocol: {reason}"));
            self.close(now, token);
        }
    }

    /// Handles what is due: accepting, signs of life, silent peers and dialling.
    pub fn tick(&mut self, now: Time, registry: &Registry, mut token: impl FnMut() -> Token) {
        self.unauthenticated_handled = 0;
        if self.accept_at.is_some_and(|at| now >= at) {
            self.accept(now, registry, &mut token);
        }
        self.begin_arrived(now, registry, &mut token);
        self.leave_out_late_rails(now);
        self.dial_due(now, registry, &mut token);
        self.begin_carried(now, registry, &mut token);
        let due: Vec<Token> = self.links.iter().filter(|(_, link)| now >= due(link)).map(|(token, _)| *token).collect();
        for token in due {
            let Some(link) = self.links.get_mut(&token) else { continue };
            let silent_ms = now - link.received_at;
            if link.upgrade_until.is_some() {
                self.upgrade_timed_out(now, token);
            } else if link.rank.is_none() || silent_ms >= SILENCE_MS_MAX {
                self.drop_link(now, token, &LinkError::Silent(silent_ms));
            } else {
                link.sent_at = now;
                // The items of a full queue are signs of life themselves.
                let _ = link.send(Outgoing::Message(Message::Alive));
                self.writable.insert(token);
            }
        }
    }

    /// Returns when [`Links::tick`] is due.
    pub fn next_tick(&self) -> Option<Time> {
        self.links
            .values()
            .map(due)
            .chain(self.dialling.next())
            .chain(self.accept_at)
            .chain(self.upgrading.next())
            .chain(self.rails.as_ref().and_then(RailState::next))
            .chain(self.next_late_rails())
            .min()
    }

    fn dial_due(&mut self, now: Time, registry: &Registry, token: &mut impl FnMut() -> Token) {
        for rank in self.dialling.due(now) {
            let token = token();
            self.dialling.began(now, rank, token);
            let address = self.addresses.of(rank);
            let stream: io::Result<Stream> = match &mut self.rails {
                Some(rails) => rails.dial(rank, address).map(Stream::from),
                None => address.and_then(TcpStream::connect).map(Stream::from),
            };
            let offered = self.upgrading.offer_to(rank);
            let link = stream.map_err(LinkError::Io).map(|stream| Link::dial(stream, rank, now).offering(offered));
            let added = link.and_then(|link| self.add(link, token, registry));
            if let Err(error) = added {
                tracing::debug!(rank = rank.0, %error, "a parent can't be dialled");
                self.ends.note(now, Peer::Parent(rank), not_dialled(&error));
                self.dialling.ended(now, token);
            }
        }
    }

    pub(crate) fn add(&mut self, link: Link, token: Token, registry: &Registry) -> Result<(), LinkError> {
        link.stream.register(registry, token)?;
        self.links.insert(token, link);
        Ok(())
    }

    /// Reports a new link to the node.
    pub(crate) fn up(&mut self, now: Time, token: Token, peer: Peer) {
        // A peer that connects again has lost its earlier link, even if that is not noticed yet.
        if let Some(earlier) = self.by_peer.get(&peer).copied() {
            self.close(now, earlier);
        }
        self.by_peer.insert(peer, token);
        self.ends.remove(peer);
        self.dialling.greeted(token);
        tracing::info!(?peer, "linked");
        self.writable.insert(token);
        self.events.push_back(LinkEvent::Up(peer));
    }

    pub(crate) fn drop_link(&mut self, now: Time, token: Token, error: &LinkError) {
        let Some(link) = self.links.get(&token) else { return };
        let address = link.stream.peer_addr();
        let not_carried = link.dialled.filter(|_| link.stream.is_carried() && link.rank.is_none());
        if let Some(peer) = link.peer().or(link.dialled.map(Peer::Parent)) {
            self.ends.note(now, peer, cause(link, error));
        }
        match (link.peer(), link.dialled) {
            // A carried link has replaced it.
            (Some(_), None) if link.upgrade_until.is_some() => {}
            (Some(peer), _) => tracing::info!(?peer, %error, "a link ended"),
            (None, Some(rank)) if error.is_of_connection() => {
                tracing::debug!(rank = rank.0, %error, "a parent does not answer yet");
                if error.is_refusal() && !link.stream.is_partly_refused() {
                    self.dialling.note_absent(rank);
                    self.events.push_back(LinkEvent::Absent(rank));
                }
            }
            // As `headwater doctor --site` does.
            (None, None) if link.has_finished_handshake() && matches!(error, LinkError::Closed) => {
                tracing::debug!(?address, "a peer examined this node");
            }
            // The peer still has the TCP connection and decides about the link.
            (None, None) if link.stream.is_carried() => tracing::debug!(%error, "a carried link failed"),
            (None, _) => self.refused(now, address, error),
        }
        self.close(now, token);
        if not_carried.is_some() {
            self.not_carried(now, not_carried, error);
        }
    }

    fn refused(&mut self, now: Time, address: Option<SocketAddr>, error: &LinkError) {
        if let Some(unreported) = self.refusals.note(now, error.kind()) {
            tracing::warn!(?address, %error, unreported, "a connection was refused; further ones of this kind are only counted.");
        }
    }

    pub(crate) fn close(&mut self, now: Time, token: Token) {
        let Some(link) = self.links.remove(&token) else { return };
        if let Some(peer) = link.peer()
            && self.by_peer.get(&peer) == Some(&token)
        {
            self.by_peer.remove(&peer);
            self.events.push_back(LinkEvent::Down(peer));
        }
        self.dialling.ended(now, token);
    }

    /// Makes room for one more unauthenticated connection.
    pub(crate) fn make_room(&mut self, now: Time) {
        let unauthenticated = || self.links.iter().filter(|(_, link)| link.rank.is_none() && link.dialled.is_none());
        if unauthenticated().count() >= UNAUTHENTICATED_MAX
            && let Some(oldest) = unauthenticated()
                .min_by_key(|(_, link)| (link.has_finished_handshake(), link.opened_at))
                .map(|(token, _)| *token)
        {
            self.drop_link(now, oldest, &LinkError::Crowded);
        }
    }
}

/// Returns when a link needs attention.
fn due(link: &Link) -> Time {
    match link.rank {
        _ if link.upgrade_until.is_some() => link.upgrade_until.unwrap_or_default(),
        None => link.opened_at + GREETING_TIMEOUT_MS,
        Some(_) => (link.received_at + SILENCE_MS_MAX).min(link.sent_at + ALIVE_INTERVAL_MS),
    }
}
