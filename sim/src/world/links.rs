//! The network: its links, and the messages on them.

use headwater_abi::Path;
use headwater_abi::wire::{Aspect, CHUNK_BYTES_MAX, Digest, FileHead, Message, TransferId};
use headwater_proto::{Input, Peer, Rank};

use super::wire::{Ends, Packet, Wire};
use super::{Event, World};
use crate::reader::Piece;
use crate::site::Link;
use crate::store::{Segment, digest_of};
use crate::violation::{Check, ensure};

/// How long a dialled rank may take to greet, in milliseconds.
const GREETING_MS_MAX: u64 = 1500;
/// How long a peer may be silent before the driver closes the link, in milliseconds.
const SILENCE_MS_MAX: u64 = 6000;

/// How long a failed request is not repeated, in milliseconds.
const RETRY_MS_MIN: u64 = 1000;

/// Returns an end's name for the other.
fn peer((child, parent): Ends, end: usize) -> Peer {
    if end == 0 { Peer::Parent(parent) } else { Peer::Child(child) }
}

fn rank((child, parent): Ends, end: usize) -> Rank {
    if end == 0 { child } else { parent }
}

/// Returns the link to a peer, and the direction in which a rank sends on it.
fn ends(own: Rank, to: Peer) -> (Ends, usize) {
    match to {
        Peer::Parent(rank) => ((own, rank), 0),
        Peer::Child(rank) => ((rank, own), 1),
    }
}

impl World {
    pub(super) fn begin_dialling(&mut self, rank: Rank, to: Rank) -> Check {
        let now = self.now;
        let before = self.site_mut(rank).dialled.insert(to, now);
        ensure(before.is_none(), || format!("rank {} is dialled twice", to.0))?;
        ensure(rank != to && to.0 < self.forest.ranks(), || format!("rank {} is dialled", to.0))?;
        self.redial((rank, to), 10);
        Ok(())
    }

    /// Ends the link to a rank, or the dialling.
    pub(super) fn hang_up(&mut self, rank: Rank, to: Rank) -> Check {
        let site = self.site_mut(rank);
        let was_dialled = site.dialled.remove(&to).is_some();
        site.links.remove(&Peer::Parent(to));
        site.suspects.insert(to);
        self.cut((rank, to), 50);
        ensure(was_dialled, || format!("rank {} is hung up and was not dialled", to.0))
    }

    fn redial(&mut self, ends: Ends, ms_max: u64) {
        let after = 1 + self.random.below(ms_max);
        let life = self.site(ends.0).life;
        self.schedule(after, Event::Dial { ends, life });
    }

    pub(super) fn dial(&mut self, ends: Ends) {
        let (child, parent) = (self.site(ends.0), ends.1);
        let is_up = self.wires.get(&ends).is_some_and(|wire| wire.is_up);
        if !child.dialled.contains_key(&parent) || child.links.contains_key(&Peer::Parent(parent)) || is_up {
            return;
        }
        if !self.site(parent).is_alive || self.is_parted(ends) {
            return self.redial(ends, 600);
        }
        let wire = self.wires.entry(ends).or_default();
        *wire = Wire { number: wire.number + 1, is_up: true, ..Wire::default() };
        let number = wire.number;
        self.transmit(ends, 0, Packet::Hello);
        self.schedule(GREETING_MS_MAX, Event::GreetingDue { ends, number });
    }

    pub(super) fn greeting_due(&mut self, ends: Ends, number: u64) {
        let is_up = self.site(ends.0).links.contains_key(&Peer::Parent(ends.1));
        if !is_up && self.wires.get(&ends).is_some_and(|wire| wire.number == number) {
            self.cut(ends, 50);
            if self.site(ends.0).dialled.contains_key(&ends.1) {
                self.redial(ends, 600);
            }
        }
    }

    /// Cuts the link; an end that has not closed it itself notices within so many milliseconds.
    pub(super) fn cut(&mut self, ends: Ends, ms_max: u64) {
        let Some(wire) = self.wires.get_mut(&ends).filter(|wire| wire.is_up) else { return };
        wire.is_up = false;
        wire.lanes = Default::default();
        let number = wire.number;
        for end in [0, 1] {
            let after = self.random.below(ms_max);
            self.schedule(after, Event::LinkLost { ends, end, number });
        }
    }

    /// Cuts the links that `matches` accepts.
    pub(super) fn cut_all(&mut self, ms_max: u64, matches: impl Fn(Ends, &Wire) -> bool) {
        let wires = self.wires.iter().filter(|(ends, wire)| wire.is_up && matches(**ends, wire));
        for ends in wires.map(|(ends, _)| *ends).collect::<Vec<Ends>>() {
            self.cut(ends, ms_max);
        }
    }

    pub(super) fn link_lost(&mut self, ends: Ends, end: usize, number: u64) -> Check {
        let (at, peer) = (rank(ends, end), peer(ends, end));
        if let Some(wire) = self.wires.get_mut(&ends).filter(|wire| wire.number == number) {
            wire.is_up = false;
            wire.lanes = Default::default();
        }
        let site = self.site_mut(at);
        if site.links.get(&peer).is_some_and(|link| link.number == number) {
            site.links.remove(&peer);
            if end == 0 {
                site.suspects.insert(ends.1);
            }
            self.pass_input(at, Input::PeerDown { peer })?;
        }
        if end == 0 && self.site(at).dialled.contains_key(&ends.1) {
            self.redial(ends, 200);
        }
        Ok(())
    }

    pub(super) fn send(&mut self, from: Rank, to: Peer, message: Message) -> Check {
        let now = self.now;
        let link = self.site_mut(from).links.get_mut(&to);
        let link = link.ok_or_else(|| format!("a message to {to:?}, whose link is down"))?;
        if let Message::Want { tree, path, aspect, .. } = &message {
            let before = link.wants.insert((path.clone(), *aspect, *tree), now);
            // A block may be requested from two ranks, in its own tree and in its file's.
            let is_again = before.is_some_and(|at| now - at < RETRY_MS_MIN) && aspect.block().is_none();
            ensure(!is_again, || format!("{path} is asked for twice at once"))?;
        }
        let (ends, direction) = ends(from, to);
        self.transmit(ends, direction, Packet::Message(Box::new(message)));
        Ok(())
    }

    pub(super) fn send_chunk(&mut self, from: Rank, to: Rank, chunk: ChunkOut) -> Check {
        let ChunkOut { transfer, piece, position, offset, bytes } = chunk;
        let content = self.site(from).store.read(&piece, offset, bytes.into());
        let mut content = content.ok_or_else(|| format!("bytes of {piece:?} are sent before they are there"))?;
        self.falsify(from, &mut content);
        ensure(bytes as usize <= CHUNK_BYTES_MAX && bytes > 0, || format!("a chunk of {bytes} bytes"))?;
        self.transmit_content(from, to, piece.0, Packet::Chunk { transfer, position, bytes, content })
    }

    pub(super) fn send_content(
        &mut self,
        from: Rank,
        to: Rank,
        (path, aspect): (Path, Aspect),
        head: FileHead,
        digest: Digest,
    ) -> Check {
        let piece = (path.clone(), None);
        let site = self.site(from);
        let packet = match site.store.read_all(&piece, &head) {
            Some(mut content) => {
                self.falsify(from, &mut content);
                let message = Box::new(Message::Content { path: path.clone(), aspect, head, digest });
                Packet::Content { message, content }
            }
            None => {
                let was_lost = site.unstored.contains(&path);
                ensure(was_lost, || format!("{path} is sent before it is there"))?;
                Packet::Message(Box::new(Message::Unavailable { path: path.clone(), aspect }))
            }
        };
        self.transmit_content(from, to, path, packet)
    }

    /// Corrupts bytes: a rank may lie, and memory may be faulty.
    fn falsify(&mut self, from: Rank, content: &mut [Segment]) {
        let is_lying = self.site(from).lies_until > self.now && self.random.chance(500);
        if (is_lying || self.random.chance(self.options.corruption)) && !content.is_empty() {
            self.summary.faults += 1;
            let at = self.random.below(content.len() as u64) as usize;
            content[at].2 ^= 1 + self.random.below(1 << 40);
        }
    }

    /// Sends what counts against the limit of chunks in flight.
    fn transmit_content(&mut self, from: Rank, to: Rank, path: Path, packet: Packet) -> Check {
        let max = self.limits.chunks_in_flight_max;
        let link = self.site_mut(from).links.get_mut(&Peer::Child(to));
        let link = link.ok_or_else(|| format!("a chunk to rank {}, whose link is down", to.0))?;
        link.chunks.push_back(path);
        let count = link.chunks.len();
        ensure(count <= max, || format!("{count} chunks are in flight"))?;
        let ends = (to, from);
        self.transmit(ends, 1, packet);
        if let Some(wire) = self.wires.get(&ends).filter(|wire| wire.is_up && !wire.lanes[1].is_silent) {
            let (number, at) = (wire.number, wire.lanes[1].last);
            self.schedule(at.saturating_sub(self.now) / 2, Event::ChunkSent { ends, number });
        }
        Ok(())
    }

    /// Sends a message. Messages keep their order on a link, and are lost with it.
    fn transmit(&mut self, ends: Ends, direction: usize, packet: Packet) {
        if self.random.chance(self.options.link_loss) {
            self.summary.faults += 1;
            self.cut(ends, 50);
        }
        let delay = if self.random.chance(self.options.delay) { 6000 } else { 20 };
        let delay = self.random.below(delay);
        let is_silenced = self.random.chance(self.options.silence);
        let now = self.now;
        let Some(wire) = self.wires.get_mut(&ends).filter(|wire| wire.is_up) else { return };
        let (number, lane) = (wire.number, &mut wire.lanes[direction]);
        if is_silenced && !lane.is_silent {
            lane.is_silent = true;
            self.summary.faults += 1;
            let after = self.random.below(SILENCE_MS_MAX);
            // Both ends notice in the end.
            for end in [0, 1] {
                self.schedule(after, Event::LinkLost { ends, end, number });
            }
        }
        let Some(wire) = self.wires.get_mut(&ends) else { return };
        let lane = &mut wire.lanes[direction];
        if lane.is_silent {
            return;
        }
        let at = (now + delay).max(lane.last);
        lane.last = at;
        lane.queue.push_back(packet);
        self.schedule(at - now, Event::Deliver { ends, direction, number });
    }

    pub(super) fn deliver(&mut self, ends: Ends, direction: usize, number: u64) -> Check {
        if self.is_parted(ends) {
            // A resent packet arrives once the partition has ended.
            self.schedule(self.parted_until - self.now, Event::Deliver { ends, direction, number });
            return Ok(());
        }
        let (to, from) = (rank(ends, 1 - direction), peer(ends, 1 - direction));
        let is_alive = self.site(to).is_alive;
        let wire = self.wires.get_mut(&ends).filter(|wire| wire.number == number && wire.is_up && is_alive);
        let Some(packet) = wire.and_then(|wire| wire.lanes[direction].queue.pop_front()) else { return Ok(()) };
        self.summary.messages += 1;
        if let Packet::Hello = packet {
            return self.greeted(ends, 1 - direction, number);
        }
        let has_content = matches!(packet, Packet::Chunk { .. } | Packet::Content { .. });
        let is_full = has_content && self.random.chance(self.options.store_failure);
        let site = self.site_mut(to);
        let Some(end) = site.links.get_mut(&from).filter(|link| link.number == number) else { return Ok(()) };
        let message = match packet {
            Packet::Hello => return Ok(()),
            Packet::Message(message) => *message,
            Packet::Chunk { transfer, position, bytes, content } => {
                if let Some((piece, _)) = end.incoming.get(&transfer) {
                    if is_full {
                        let (path, block) = piece.clone();
                        self.summary.faults += 1;
                        return self.pass_input(to, Input::StoreFailed { path, block });
                    }
                    site.store.write(piece, content);
                }
                Message::Chunk { transfer, position, bytes }
            }
            Packet::Content { message, content } => {
                note_answer(end, &message);
                return self.content_arrived(to, from, *message, content, is_full);
            }
        };
        note_answer(end, &message);
        if let (Message::End { transfer, digest }, Peer::Parent(parent)) = (&message, from)
            && let Some((piece, head)) = end.incoming.remove(transfer)
            && site.store.digest(&piece, &head) != Some(*digest)
        {
            site.suspects.insert(parent);
            return self.pass_input(to, Input::Corrupt { from: parent, transfer: *transfer });
        }
        self.pass_input(to, Input::Message { from, message })
    }

    fn content_arrived(
        &mut self,
        to: Rank,
        from: Peer,
        message: Message,
        content: Vec<Segment>,
        is_full: bool,
    ) -> Check {
        let Message::Content { path, digest, .. } = &message else { return Ok(()) };
        let site = self.site_mut(to);
        if digest_of(content.iter().copied()) != *digest {
            site.suspects.insert(from.rank());
            return self.pass_input(to, Input::CorruptContent { from: from.rank(), path: path.clone() });
        }
        site.received_content = if is_full { None } else { Some(content) };
        self.summary.faults += u64::from(is_full);
        self.pass_input(to, Input::Message { from, message })
    }

    /// Handles the other's greeting at one end: its link is up.
    fn greeted(&mut self, ends: Ends, end: usize, number: u64) -> Check {
        let (at, peer) = (rank(ends, end), peer(ends, end));
        if end == 1 {
            self.transmit(ends, 1, Packet::Hello);
        }
        if self.site_mut(at).links.insert(peer, Link::new(number)).is_some() {
            // A peer that connects again has lost the earlier link, noticed or not.
            self.site_mut(at).links.remove(&peer);
            self.pass_input(at, Input::PeerDown { peer })?;
            self.site_mut(at).links.insert(peer, Link::new(number));
        }
        self.pass_input(at, Input::PeerUp { peer })
    }

    pub(super) fn chunk_sent(&mut self, ends: Ends, number: u64) -> Check {
        let (to, from) = ends;
        let link = self.site_mut(from).links.get_mut(&Peer::Child(to));
        let Some(link) = link.filter(|link| link.number == number) else { return Ok(()) };
        link.chunks.pop_front();
        self.pass_input(from, Input::ChunkSent { to })
    }

    /// Returns whether a partition is between two ranks.
    fn is_parted(&self, (a, b): Ends) -> bool {
        self.now < self.parted_until && self.sides[a.0 as usize] != self.sides[b.0 as usize]
    }
}

pub(super) struct ChunkOut {
    pub(super) transfer: TransferId,
    pub(super) piece: Piece,
    pub(super) position: u64,
    pub(super) offset: u64,
    pub(super) bytes: u32,
}

/// Permits to repeat the requests on this link that this message answers.
fn note_answer(link: &mut Link, message: &Message) {
    let answered = |link: &Link, transfer| link.incoming.get(transfer).map(|((path, _), _)| path.clone());
    let path: Option<Path> = match message {
        Message::Known { path, .. }
        | Message::Content { path, .. }
        | Message::File { path, .. }
        | Message::Large { path, .. }
        | Message::Unavailable { path, .. }
        | Message::Details { path, is_last: true, .. } => Some(path.clone()),
        Message::Failed { transfer, .. } | Message::Again { transfer } | Message::End { transfer, .. } => {
            answered(link, transfer)
        }
        Message::Passthrough { path, .. } => return link.wants.retain(|(wanted, ..), _| !wanted.is_within(path)),
        Message::Refresh { .. } => return link.wants.clear(),
        _ => None,
    };
    if let Some(path) = path {
        link.wants.retain(|(wanted, aspect, _), _| *wanted != path || is_other(*aspect, message));
    }
}

/// Returns whether a request is about another block than this message.
fn is_other(aspect: headwater_abi::wire::Aspect, message: &Message) -> bool {
    let described = match message {
        Message::File { aspect, .. } | Message::Unavailable { aspect, .. } => aspect.block(),
        _ => return false,
    };
    aspect.block().is_some() && described.is_some() && aspect.block() != described
}
