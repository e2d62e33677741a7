//! The drivers: what each output does to the model.

use headwater_abi::Path;
use headwater_abi::wire::{Aspect, CHUNK_BYTES_MAX, Detail, Fact, Message, TransferId};
use headwater_proto::{Input, Output, Publication, Rank};

use super::{Event, Packet, World};
use crate::check::{Check, ensure};
use crate::reader::{Piece, block_of};
use crate::site::Link;

const EIO: u16 = 5;
const ESTALE: u16 = 116;

impl World {
    pub(super) fn local(&mut self, rank: Rank, input: Input) -> Check {
        if let Input::ClientGone { client } = &input
            && self.site_mut(rank).waiting.remove(client).is_none()
        {
            return Ok(());
        }
        self.give(rank, input)
    }

    pub(super) fn perform(&mut self, rank: Rank, output: Output) -> Check {
        match output {
            Output::Reply { client, reply } => {
                let waiting = self.site_mut(rank).waiting.remove(&client);
                let waiting = waiting.ok_or_else(|| format!("an answer to client {}, who waits for none", client.0))?;
                self.check_reply(rank, &waiting, reply)
            }
            Output::Send { to, message } => self.send(rank, to, message),
            Output::SendChunk { to, transfer, path, block, position, offset, bytes } => {
                let piece = (path, block);
                ensure(self.site(rank).store.contains(&piece, offset, bytes.into()), || {
                    format!("bytes of {piece:?} are sent before they are there")
                })?;
                self.send_chunk(rank, to, transfer, piece.0, position, bytes)
            }
            Output::ReadEntry { path } => self.read(rank, path, Aspect::Entry),
            Output::ReadListing { path } => self.read(rank, path, Aspect::Listing),
            Output::ReadDetails { path, names } => self.read_details(rank, path, names),
            Output::ReadFile { path, aspect, have, .. } => {
                ensure(have.is_some() || block_of(aspect).is_none(), || format!("a block of {path}, but how large?"))?;
                if let (Some(have), Some(_)) = (&have, block_of(aspect)) {
                    self.site_mut(rank).inodes_in_blocks.insert(have.attr.ino);
                }
                if let Some(have) = &have {
                    let is_there =
                        have.ranges.is_empty() || self.site(rank).store.contains_all(&(path.clone(), None), have);
                    ensure(is_there, || format!("{path} is said to be in the store"))?;
                }
                self.read_file(rank, path, aspect)
            }
            Output::Receive { from, transfer, path, block, head } => {
                let site = self.site_mut(rank);
                let piece = (path, block);
                site.store.open(&piece);
                let link = site.links.get_mut(&from).ok_or("a file is received over no link")?;
                link.incoming.insert(transfer, (piece, head));
                Ok(())
            }
            Output::Discard { path, block } => {
                let site = self.site_mut(rank);
                let piece = (path, block);
                site.store.discard(&piece);
                site.reads.files.remove(&piece);
                site.reads.excuse(&piece.0);
                for link in site.links.values_mut() {
                    link.incoming.retain(|_, (incoming, _)| *incoming != piece);
                }
                Ok(())
            }
            Output::Forget { path } => self.forget(rank, path),
            Output::Changed { path } => {
                ensure(rank == Rank::ROOT && self.has_changed(&path), || format!("{path} is said to have changed"))
            }
            Output::Publish(publication) => self.publish(rank, publication),
            Output::Evict { path } => self.evict(rank, &path),
            Output::Cleared { .. }
            | Output::LookAnew
            | Output::Generation { .. }
            | Output::Refreshed { .. }
            | Output::RefreshFailed { .. } => Err("nobody asked for this".into()),
            Output::Disconnect { rank: peer, reason } => Err(format!("rank {} is blamed: {reason}", peer.0)),
        }
    }

    fn evict(&mut self, rank: Rank, path: &Path) -> Check {
        let site = self.site_mut(rank);
        let was_there = site.resident.remove(path).is_some() | site.blocks.remove(path).is_some();
        ensure(was_there, || format!("{path} is evicted and was not there"))?;
        let is_needed = site.links.values().any(|link| link.chunks.contains(path));
        site.store.remove(path);
        site.reads.excuse(path);
        ensure(!is_needed, || format!("{path} is evicted while it is sent"))
    }

    fn publish(&mut self, rank: Rank, publication: Publication) -> Check {
        self.check_publication(rank, &publication)?;
        match publication {
            Publication::Fact { path, fact } => {
                self.site_mut(rank).facts.insert(path, fact);
            }
            Publication::Content { path, head, is_marked, .. } => {
                let site = self.site_mut(rank);
                let piece = (path, None);
                site.store.publish(&piece);
                site.reads.files.remove(&piece);
                if head.whole {
                    site.blocks.remove(&piece.0);
                }
                site.resident.insert(piece.0.clone(), head);
                self.use_marked(rank, piece, is_marked);
            }
            Publication::Block { path, block, is_marked, .. } => {
                let site = self.site_mut(rank);
                let piece = (path, Some(block));
                site.store.publish(&piece);
                site.reads.files.remove(&piece);
                site.blocks.entry(piece.0.clone()).or_default().insert(block);
                self.use_marked(rank, piece, is_marked);
            }
            Publication::HardLink { path, target, head, .. } => {
                self.summary.hard_links += 1;
                let site = self.site_mut(rank);
                ensure(site.store.link(&path, &target), || format!("{path} can't become a link to {target}"))?;
                site.resident.insert(path, head);
            }
            Publication::Live { path, tree } => {
                let site = self.site_mut(rank);
                site.listings_live.extend(path.parent());
                *site.live.entry(path).or_default() |= tree;
            }
        }
        Ok(())
    }

    fn read(&mut self, rank: Rank, path: Path, aspect: Aspect) -> Check {
        self.check_read(rank, &path, aspect)?;
        match aspect {
            Aspect::Listing => self.summary.directories_read += 1,
            _ => self.summary.entries_read += 1,
        }
        if self.random.chance(self.options.read_hang) {
            self.summary.faults += 1;
            self.site_mut(rank).reads.excuse(&path);
            return Ok(());
        }
        let after = self.random.below(20);
        let at = self.now + after;
        let mut fact = match aspect {
            Aspect::Listing => self.tree.listing(&path, at),
            _ => self.tree.entry(&path, at),
        };
        if self.random.chance(self.options.read_failure) {
            self.summary.faults += 1;
            self.site_mut(rank).reads.excuse(&path);
            fact = headwater_abi::wire::Fact::Error(EIO);
        }
        self.schedule(after, Event::Local(rank, Box::new(Input::FactRead { path, aspect, fact })));
        Ok(())
    }

    fn read_details(&mut self, rank: Rank, path: Path, names: Vec<Box<[u8]>>) -> Check {
        ensure(rank == Rank::ROOT && self.in_scope(&path), || format!("names of {path} are read"))?;
        if self.random.chance(self.options.read_hang) {
            self.summary.faults += 1;
            return Ok(());
        }
        let after = self.random.below(20);
        let mut details = Vec::new();
        for name in names {
            let Some(at) = path.join(&name) else { continue };
            ensure(!self.site(rank).facts.contains_key(&at), || format!("{at} is read though it is known"))?;
            let fact = self.tree.entry(&at, self.now + after);
            let is_failing = self.random.chance(self.options.read_failure);
            if !is_failing && matches!(fact, Fact::Attr(_) | Fact::Link(..)) {
                details.push(Detail { name, fact });
            }
        }
        self.summary.details_read += details.len() as u64;
        self.schedule(after, Event::Local(rank, Box::new(Input::DetailsRead { path, details })));
        Ok(())
    }

    /// What is marked may be used some time, which the node is told.
    fn use_marked(&mut self, rank: Rank, (path, block): Piece, is_marked: bool) {
        if is_marked && self.random.chance(700) {
            let after = self.random.below(200);
            self.schedule(after, Event::Local(rank, Box::new(Input::Used { path, block })));
        }
    }

    fn forget(&mut self, rank: Rank, path: Path) -> Check {
        self.summary.forgotten += 1;
        let site = self.site_mut(rank);
        let is_used = site.resident.contains_key(&path) || site.blocks.contains_key(&path) || site.is_live(&path);
        ensure(!is_used, || format!("{path} is forgotten though it is used"))?;
        ensure(site.facts.remove(&path).is_some(), || format!("{path} is forgotten and was not known"))?;
        let is_below = |other: &Path| *other != path && other.is_within(&path);
        ensure(!site.facts.keys().any(is_below), || format!("{path} is forgotten before what is below"))?;
        site.reads.excuse(&path);
        Ok(())
    }

    fn read_file(&mut self, rank: Rank, path: Path, aspect: Aspect) -> Check {
        self.check_read(rank, &path, aspect)?;
        self.summary.files_opened += 1;
        let max = self.limits.reads_in_flight_max;
        let site = self.site_mut(rank);
        let piece = (path.clone(), block_of(aspect));
        ensure(!site.reads.files.contains_key(&piece), || format!("{piece:?} is read twice at once"))?;
        let number = site.reads.open(&path, aspect);
        let count = site.reads.files.len();
        ensure(count <= max, || format!("{count} files are read at once"))?;
        if self.random.chance(self.options.read_hang) {
            self.summary.faults += 1;
        } else {
            let after = self.random.below(20);
            self.schedule(after, Event::ReadStep { rank, piece, number });
        }
        Ok(())
    }

    pub(super) fn read_step(&mut self, rank: Rank, piece: &Piece, number: u64) -> Check {
        let path = &piece.0;
        let is_failing = self.random.chance(self.options.read_failure);
        let is_full = self.random.chance(self.options.store_failure);
        let (step, now) = (1 + self.random.below(300_000), self.now);
        let Some(read) = self.sites[rank.0 as usize].reads.get(piece, number) else { return Ok(()) };
        let aspect = read.aspect;
        let input = match &read.head {
            _ if is_failing => Input::FileFailed { path: path.clone(), aspect, errno: EIO },
            Some(_) if is_full => Input::StoreFailed { path: path.clone(), block: piece.1 },
            None => match self.tree.open(path, aspect, now) {
                Ok(head) => {
                    read.head = Some(head.clone());
                    self.sites[rank.0 as usize].store.open(piece);
                    Input::FileOpened { path: path.clone(), aspect, head }
                }
                Err(errno) => Input::FileFailed { path: path.clone(), aspect, errno },
            },
            Some(head) if !self.tree.is_current(path, &head.attr) => {
                Input::FileFailed { path: path.clone(), aspect, errno: ESTALE }
            }
            Some(head) => {
                let (head, from) = (head.clone(), read.position);
                let position = (from + step).min(head.content_bytes());
                read.position = position;
                self.sites[rank.0 as usize].store.write(piece, &head, from, position);
                Input::FileRead { path: path.clone(), aspect, position }
            }
        };
        if matches!(input, Input::FileFailed { .. } | Input::StoreFailed { .. }) {
            self.summary.faults += u64::from(is_failing || is_full);
            let site = self.site_mut(rank);
            site.reads.files.remove(piece);
            site.reads.excuse(path);
        }
        self.give(rank, input)?;
        let after = self.random.below(5);
        self.schedule(after, Event::ReadStep { rank, piece: piece.clone(), number });
        Ok(())
    }

    /// The wire between two neighbours, and the direction from one to the other.
    fn wire(&self, from: Rank, to: Rank) -> Option<(usize, usize)> {
        if self.topology.parent(from) == Some(to) {
            Some((from.0 as usize, 0))
        } else if self.topology.parent(to) == Some(from) {
            Some((to.0 as usize, 1))
        } else {
            None
        }
    }

    fn send(&mut self, from: Rank, to: Rank, message: Message) -> Check {
        let (now, timeout) = (self.now, self.limits.request_timeout_ms_max);
        let link = self.site_mut(from).links.get_mut(&to);
        let link = link.ok_or_else(|| format!("a message to rank {}, whose link is down", to.0))?;
        if let Message::Want { path, aspect, .. } = &message {
            let before = link.wants.insert((path.clone(), *aspect), now);
            let is_again = before.is_some_and(|at| now - at < timeout);
            ensure(!is_again, || format!("{path} is asked for twice at once"))?;
        }
        self.transmit(from, to, Packet::Message(Box::new(message)));
        Ok(())
    }

    fn send_chunk(
        &mut self,
        from: Rank,
        to: Rank,
        transfer: TransferId,
        path: Path,
        position: u64,
        bytes: u32,
    ) -> Check {
        let max = self.limits.chunks_in_flight_max;
        let link = self.site_mut(from).links.get_mut(&to);
        let link = link.ok_or_else(|| format!("a chunk to rank {}, whose link is down", to.0))?;
        link.chunks.push_back(path);
        let count = link.chunks.len();
        ensure(count <= max && bytes as usize <= CHUNK_BYTES_MAX && bytes > 0, || {
            format!("{count} chunks of {bytes} bytes are in flight")
        })?;
        self.transmit(from, to, Packet::Message(Box::new(Message::Chunk { transfer, position, bytes })));
        if let Some((wire, direction)) = self.wire(from, to) {
            let (link, at) = (self.wires[wire].number, self.wires[wire].last[direction]);
            self.schedule(at.saturating_sub(self.now) / 2, Event::ChunkSent { from, to, link });
        }
        Ok(())
    }

    /// Messages keep their order on a link, and are lost with it.
    pub(super) fn transmit(&mut self, from: Rank, to: Rank, packet: Packet) {
        let Some((wire, direction)) = self.wire(from, to) else { return };
        if self.random.chance(self.options.link_loss) {
            self.lose(wire);
        }
        let delay = if self.options.link_loss > 0 && self.random.chance(2) { 6000 } else { self.random.below(20) };
        let wire = &mut self.wires[wire];
        if !wire.is_up {
            return;
        }
        let at = (self.now + delay).max(wire.last[direction]);
        wire.last[direction] = at;
        let link = wire.number;
        self.schedule(at - self.now, Event::Deliver { from, to, link, packet });
    }

    /// Loses the link above a rank: both ends notice some time later.
    pub(super) fn lose(&mut self, wire: usize) {
        let child = Rank(wire as u32);
        let Some(parent) = self.topology.parent(child).filter(|_| self.wires[wire].is_up) else { return };
        self.wires[wire].is_up = false;
        self.summary.faults += 1;
        let link = self.wires[wire].number;
        for (at, peer) in [(child, parent), (parent, child)] {
            let after = self.random.below(50);
            self.schedule(after, Event::LinkLost { at, peer, link });
        }
        let after = 100 + self.random.below(500);
        self.schedule(after, Event::Connect(child));
    }

    pub(super) fn link_lost(&mut self, at: Rank, peer: Rank, link: u64) -> Check {
        let Some((wire, _)) = self.wire(at, peer) else { return Ok(()) };
        if self.wires[wire].number != link || self.site_mut(at).links.remove(&peer).is_none() {
            return Ok(());
        }
        self.give(at, Input::PeerDown { rank: peer })
    }

    /// Sets the link above a rank up, if both ends live and have noticed that the last one is gone.
    pub(super) fn connect(&mut self, child: Rank) {
        let Some(parent) = self.topology.parent(child) else { return };
        let wire = &self.wires[child.0 as usize];
        let (a, b) = (self.site(child), self.site(parent));
        if wire.is_up || !a.is_alive || !b.is_alive || a.links.contains_key(&parent) || b.links.contains_key(&child) {
            return;
        }
        let wire = &mut self.wires[child.0 as usize];
        *wire = super::Wire { number: wire.number + 1, is_up: true, last: [0; 2] };
        self.transmit(child, parent, Packet::Hello);
        self.transmit(parent, child, Packet::Hello);
    }

    pub(super) fn deliver(&mut self, from: Rank, to: Rank, link: u64, packet: Packet) -> Check {
        let Some((wire, _)) = self.wire(from, to) else { return Ok(()) };
        if self.wires[wire].number != link || !self.wires[wire].is_up || !self.site(to).is_alive {
            return Ok(());
        }
        self.summary.messages += 1;
        let message = match packet {
            Packet::Hello => {
                self.site_mut(to).links.insert(from, Link::default());
                return self.give(to, Input::PeerUp { rank: from });
            }
            Packet::Message(message) => *message,
        };
        let is_full = self.random.chance(self.options.store_failure);
        let site = self.site_mut(to);
        let Some(end) = site.links.get_mut(&from) else { return Ok(()) };
        let path = match &message {
            Message::Known { path, .. } | Message::File { path, .. } | Message::Unavailable { path, .. } => {
                Some(path.clone())
            }
            Message::Details { path, is_last: true, .. } => Some(path.clone()),
            Message::Failed { transfer, .. } => end.incoming.get(transfer).map(|((path, _), _)| path.clone()),
            Message::Live { path, .. } => {
                end.wants.retain(|(wanted, _), _| !wanted.is_within(path));
                None
            }
            _ => None,
        };
        end.wants.retain(|(wanted, _), _| Some(wanted) != path.as_ref());
        if let Message::Chunk { transfer, position, bytes } = &message
            && let Some((piece, head)) = end.incoming.get(transfer).cloned()
        {
            if is_full {
                self.summary.faults += 1;
                return self.give(to, Input::StoreFailed { path: piece.0, block: piece.1 });
            }
            site.store.write(&piece, &head, *position, position + u64::from(*bytes));
        }
        self.give(to, Input::Message { from, message })
    }

    pub(super) fn chunk_sent(&mut self, from: Rank, to: Rank, link: u64) -> Check {
        let Some((wire, _)) = self.wire(from, to) else { return Ok(()) };
        if self.wires[wire].number != link {
            return Ok(());
        }
        let Some(end) = self.site_mut(from).links.get_mut(&to) else { return Ok(()) };
        end.chunks.pop_front();
        self.give(from, Input::ChunkSent { to })
    }

    pub(super) fn death(&mut self) -> Check {
        let rank = Rank(self.random.below(self.sites.len() as u64) as u32);
        if rank == Rank::ROOT || !self.site(rank).is_alive {
            return Ok(());
        }
        self.summary.faults += 1;
        let site = self.site_mut(rank);
        site.is_alive = false;
        site.links.clear();
        site.waiting.clear();
        let below: Vec<Rank> = self.topology.children(rank).collect();
        for wire in below.into_iter().chain([rank]) {
            self.lose(wire.0 as usize);
        }
        Ok(())
    }

    pub(super) fn stop_faults(&mut self) {
        let trace = self.options.trace;
        self.options = crate::Options { trace, evict_refusal: self.options.evict_refusal, ..crate::Options::calm() };
    }
}
