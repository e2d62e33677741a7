//! Drivers: the effect of each output of a node, and the travel of messages.

use headwater_abi::wire::{Digest, Fact, FileHead, Message};
use headwater_proto::{Input, Output, Peer, Publication, Rank};

use super::shard::Shard;
use super::site::{Link, Packet};
use crate::program::{Part, bit};
use crate::queue::Event;

/// Bytes that a frame, its authentication and the packets' heads add to a message.
const FRAME_BYTES: u64 = 100;
/// Bytes above which messages to one peer no longer arrive together.
const PACKET_BYTES: u64 = 64 << 10;
/// Bytes that a card has taken and not sent, beyond which links take turns.
const CARD_BYTES: u64 = 256 << 10;

/// Actions behind all outputs that a node has put out.
#[derive(Default)]
struct Later {
    packets: Vec<Packet>,
    inputs: Vec<Input>,
}

impl Later {
    fn is_empty(&self) -> bool {
        self.packets.is_empty() && self.inputs.is_empty()
    }
}

impl Shard<'_> {
    /// Sets up a node's links at the beginning: those from its children, and those that it dials.
    pub(super) fn link_up(&mut self, site: u32) {
        let (forest, rank) = (self.world.forest, Rank(self.at(site).rank));
        let trees = forest.tree_ids().filter(|&tree| forest.contains(tree, rank));
        let mut children: Vec<Rank> = trees.flat_map(|tree| forest.children(tree, rank)).collect();
        children.sort_unstable();
        children.dedup();
        for child in children {
            self.at(site).node.handle(0, Input::PeerUp { peer: Peer::Child(child) });
        }
        self.execute_all(site, 0);
    }

    /// Handles a packet's messages one after the other.
    pub(super) fn arrive(&mut self, packet: u32) {
        let packet = self.packets.remove(packet).expect("a packet arrives once");
        let Packet { from, site, is_down, messages, bytes, content_bytes, .. } = packet;
        let now_ns = self.now_ns;
        let it = &mut self.sites[(site - self.first) as usize];
        let came = self.wires.receive(now_ns, &mut it.card, bytes);
        let content_ns = content_bytes / 1024 * self.costs.receive_per_kb;
        let done = self.work(site, came, self.costs.receive * messages.len() as u64 + content_ns);
        self.messages += messages.len() as u64;
        let peer = if is_down { Peer::Parent(Rank(from)) } else { Peer::Child(Rank(from)) };
        for message in messages {
            if !is_down {
                self.note_want(site, &message);
            }
            self.at(site).node.handle(done / 1_000_000, Input::Message { from: peer, message });
        }
        self.execute_all(site, done);
    }

    /// Notes a request of this node or a child, which its ghosts repeat.
    fn note_want(&mut self, site: u32, message: &Message) {
        let it = self.at(site);
        let Message::Want { tree, path, aspect, .. } = message else { return };
        let has_ghosts = it.ghosts.iter().any(|ghosts| ghosts.tree == *tree);
        if has_ghosts && it.asked.insert((*tree, path.clone(), *aspect)) {
            it.ghosts_ask.push((*tree, message.clone()));
        }
    }

    /// Handles the ghosts' requests. Returns when that is done.
    fn request_for_ghosts(&mut self, site: u32, at_ns: u64) -> u64 {
        let mut at_ns = at_ns;
        for (tree, message) in std::mem::take(&mut self.at(site).ghosts_ask) {
            let ghosts = self.at(site).ghosts.iter().find(|ghosts| ghosts.tree == tree);
            for rank in ghosts.map(|ghosts| ghosts.ranks.clone()).unwrap_or_default() {
                at_ns = self.work(site, at_ns, self.costs.receive);
                let input = Input::Message { from: Peer::Child(Rank(rank)), message: message.clone() };
                self.at(site).node.handle(at_ns / 1_000_000, input);
            }
        }
        at_ns
    }

    /// Executes a node's outputs until there are no more.
    pub(super) fn execute_all(&mut self, site: u32, at_ns: u64) {
        let mut at_ns = at_ns;
        loop {
            let mut later = Later::default();
            while let Some(output) = self.at(site).node.poll_output() {
                at_ns = self.execute(site, at_ns, output, &mut later);
            }
            if later.is_empty() && self.at(site).ghosts_ask.is_empty() {
                break;
            }
            for packet in later.packets {
                at_ns = self.send(site, at_ns, packet);
            }
            for input in later.inputs {
                self.at(site).node.handle(at_ns / 1_000_000, input);
            }
            at_ns = self.request_for_ghosts(site, at_ns);
        }
        self.set_timer(site);
        self.continue_if_answered(site, at_ns);
    }

    fn execute(&mut self, site: u32, at_ns: u64, output: Output, later: &mut Later) -> u64 {
        match output {
            Output::Dial { rank } => {
                self.dialled(site, rank);
                later.inputs.push(Input::PeerUp { peer: Peer::Parent(rank) });
            }
            Output::HangUp { rank } => self.hang_up(site, rank),
            Output::Send { to: Peer::Parent(to), message } => {
                self.note_want(site, &message);
                self.send_up(site, to, message, later);
            }
            Output::Send { to: Peer::Child(to), message } => {
                self.pack(site, (to.0, true), message, later);
            }
            Output::SendChunk { to, transfer, position, bytes, .. } => {
                self.pack(site, (to.0, true), Message::Chunk { transfer, position, bytes }, later);
            }
            Output::SendContent { to, path, aspect, head, digest } => {
                let message = Message::Content { path, aspect, head: FileHead::clone(&head), digest };
                self.pack(site, (to.0, true), message, later);
            }
            Output::Digest { path, aspect, .. } => {
                later.inputs.push(Input::Digested { path, aspect, digest: Some(Digest([0; 32])) });
            }
            Output::Publish(publication) => return self.publish(site, at_ns, publication),
            Output::Reply { reply, .. } => return self.replied(site, at_ns, reply),
            Output::ReadEntry { .. }
            | Output::ReadListing { .. }
            | Output::ReadDetails { .. }
            | Output::ReadFile { .. }
            | Output::TimeRead { .. } => {
                self.read(site, at_ns, output);
            }
            Output::Disconnect { peer, reason } => {
                unreachable!("rank {} blames {peer:?}: {reason}", self.at(site).rank)
            }
            _ => {}
        }
        at_ns
    }

    /// Links a node to another that is not its parent in any tree, or no longer: readers do that for each other's
    /// blocks.
    fn dialled(&mut self, site: u32, to: Rank) {
        let (forest, rank) = (self.world.forest, Rank(self.at(site).rank));
        let mut trees = forest.tree_ids().filter(|&tree| forest.contains(tree, rank));
        let is_anew = self.at(site).hung_up.contains(&to);
        if !is_anew && trees.any(|tree| forest.parent(tree, rank) == Some(to)) {
            return;
        }
        self.at(site).hung_up.retain(|&parent| parent != to);
        let end = self.first + self.sites.len() as u32;
        if let Some(other) = self.world.crowd.site(to.0).filter(|other| (self.first..end).contains(other)) {
            let now_ms = self.now_ns / 1_000_000;
            self.at(other).node.handle(now_ms, Input::PeerUp { peer: Peer::Child(rank) });
        }
    }

    /// Ends a link to a parent, which the node dials again: what is in transit is lost. A parent in another shard
    /// does not notice; links are that slow only where there is one shard.
    fn hang_up(&mut self, site: u32, parent: Rank) {
        let rank = self.at(site).rank;
        let end = self.first + self.sites.len() as u32;
        let Some(other) = self.world.crowd.site(parent.0).filter(|other| (self.first..end).contains(other)) else {
            return;
        };
        for packet in self.packets.iter_mut() {
            let is_downward = packet.is_down && (packet.site, packet.from) == (site, parent.0);
            let is_upward = !packet.is_down && (packet.site, packet.from) == (other, rank);
            if is_downward || is_upward {
                packet.messages.clear();
            }
        }
        for (at, to, is_down) in [(site, parent.0, false), (other, rank, true)] {
            self.at(at).links.retain(|link| (link.to, link.is_down) != (to, is_down));
        }
        let now_ms = self.now_ns / 1_000_000;
        self.at(other).node.handle(now_ms, Input::PeerDown { peer: Peer::Child(Rank(rank)) });
        self.at(site).hung_up.push(parent);
    }

    fn send_up(&mut self, site: u32, to: Rank, message: Message, later: &mut Later) {
        let rank = self.at(site).rank;
        if self.world.crowd.is_fostered(rank, to.0) {
            match message {
                Message::Want { .. } => {}
                // The parent's replacement is alive as the parent would be.
                Message::Probe => {
                    later.inputs.push(Input::Message { from: Peer::Parent(to), message: Message::Alive });
                    return;
                }
                _ => return,
            }
        }
        // A message that one of several receivers cancels continues for the others.
        if matches!(message, Message::Cancel { .. }) && self.world.crowd.downward(to.0, rank).nth(1).is_some() {
            return;
        }
        self.pack(site, (to.0, false), message, later);
    }

    /// Puts a message behind the others for the same peer.
    fn pack(&mut self, site: u32, (to, is_down): (u32, bool), message: Message, later: &mut Later) {
        let content_bytes = message.content_bytes();
        let bytes = message_bytes(&message) + content_bytes + FRAME_BYTES;
        let chunks = u32::from(matches!(message, Message::Chunk { .. } | Message::Content { .. }));
        let last = later.packets.iter_mut().rev().find(|packet| packet.to == to && packet.is_down == is_down);
        match last {
            Some(packet) if packet.bytes < PACKET_BYTES => {
                packet.messages.push(message);
                packet.bytes += bytes;
                packet.content_bytes += content_bytes;
                packet.chunks += chunks;
            }
            _ => {
                let from = self.at(site).rank;
                let messages = vec![message];
                later.packets.push(Packet { from, to, site, is_down, messages, bytes, content_bytes, chunks });
            }
        }
    }

    /// Puts a packet on its link. Notifies the node at once of what the socket takes at once.
    fn send(&mut self, site: u32, at_ns: u64, packet: Packet) -> u64 {
        let content_ns = packet.content_bytes / 1024 * self.costs.send_per_kb;
        let at_ns = self.work(site, at_ns, self.costs.send * packet.messages.len() as u64 + content_ns);
        let (to, is_down, chunks) = (packet.to, packet.is_down, packet.chunks);
        let (busy_max, socket_bytes, now_ns) = (self.wires.card_ns(CARD_BYTES), self.costs.socket_bytes, self.now_ns);
        let it = self.at(site);
        let number = it.links.iter().position(|link| link.to == to && link.is_down == is_down).unwrap_or_else(|| {
            it.links.push(Link { to, is_down, waiting: Default::default(), waiting_bytes: 0, untaken: 0 });
            it.links.len() - 1
        });
        let link = &mut it.links[number];
        let is_small = packet.chunks == 0 && packet.bytes < PACKET_BYTES;
        if link.waiting.is_empty() && (is_small || it.card.out_free <= at_ns + busy_max) {
            self.put_on_card(site, at_ns, packet);
        } else {
            link.waiting_bytes += packet.bytes;
            link.waiting.push_back(packet);
            let is_taken = link.waiting_bytes <= socket_bytes;
            if !is_taken {
                link.untaken += chunks;
            }
            if !std::mem::replace(&mut it.is_card_planned, true) {
                let free = it.card.out_free.max(now_ns);
                self.plan(site, free, Event::Card(site));
            }
            if !is_taken {
                return at_ns;
            }
        }
        self.taken(site, to, at_ns, chunks);
        at_ns
    }

    fn taken(&mut self, site: u32, to: u32, at_ns: u64, chunks: u32) {
        for _ in 0..chunks {
            self.at(site).node.handle(at_ns / 1_000_000, Input::ChunkSent { to: Rank(to) });
        }
    }

    /// Sends a packet to its simulated receivers.
    fn put_on_card(&mut self, site: u32, at_ns: u64, packet: Packet) {
        let Packet { from, to, is_down, bytes, content_bytes, chunks, .. } = packet;
        let it = &mut self.sites[(site - self.first) as usize];
        let first = self.wires.leave(at_ns, &mut it.card, bytes);
        let world = self.world;
        let mut messages = Some(packet.messages);
        let mut receivers: Vec<(u32, u32, u32)> = Vec::new();
        if is_down {
            receivers.extend(world.crowd.downward(from, to).map(|(rank, parent)| (rank, parent, rank)));
        } else {
            let (child, foster) = world.crowd.upward(from, to);
            // The receiver sees the rank that replaces its child.
            receivers.push((foster, child, if child == from { foster } else { to }));
        }
        let count = receivers.len();
        for (number, (rank, from_seen, to_seen)) in receivers.into_iter().enumerate() {
            let Some(receiver) = world.crowd.site(rank) else { continue };
            let messages = if number + 1 == count { messages.take() } else { messages.clone() };
            let messages = messages.unwrap_or_default();
            let arrival = self.wires.carry(first, from, to, bytes);
            let moment = self.moment(site, arrival);
            let copy = Packet {
                from: from_seen,
                to: to_seen,
                site: receiver,
                is_down,
                messages,
                bytes,
                content_bytes,
                chunks,
            };
            match world.shard_of(receiver) {
                shard if shard == self.number => self.take(moment, copy),
                shard => self.outgoing[shard as usize].push((moment, copy)),
            }
        }
    }

    /// Puts the next link's packet on the card.
    pub(super) fn turn(&mut self, site: u32) {
        let (now_ns, socket_bytes) = (self.now_ns, self.costs.socket_bytes);
        let it = self.at(site);
        it.is_card_planned = false;
        let links = it.links.len();
        let Some(number) = (0..links).map(|n| (it.turn + n) % links).find(|&n| !it.links[n].waiting.is_empty()) else {
            return;
        };
        it.turn = number + 1;
        let link = &mut it.links[number];
        let Some(packet) = link.waiting.pop_front() else { return };
        link.waiting_bytes -= packet.bytes;
        let to = link.to;
        let taken = if link.waiting_bytes <= socket_bytes { std::mem::take(&mut link.untaken) } else { 0 };
        self.put_on_card(site, now_ns, packet);
        let it = self.at(site);
        if it.links.iter().any(|link| !link.waiting.is_empty()) {
            it.is_card_planned = true;
            let free = it.card.out_free;
            self.plan(site, free, Event::Card(site));
        }
        if taken > 0 {
            self.taken(site, to, now_ns, taken);
            self.execute_all(site, now_ns);
        }
    }

    fn publish(&mut self, site: u32, at_ns: u64, publication: Publication) -> u64 {
        if let Publication::Direct { path } = &publication {
            let object = self.program.find(path);
            self.at(site).direct.extend(object);
        }
        let (path, parts): (_, &[Part]) = match &publication {
            Publication::Fact { path, fact: Fact::Listing(..) } => (path, &[Part::Fact, Part::Names]),
            Publication::Fact { path, .. } => (path, &[Part::Fact]),
            Publication::Content { path, .. } | Publication::Arrived { path, .. } => (path, &[Part::Content]),
            Publication::Block { .. }
            | Publication::HardLink { .. }
            | Publication::Passthrough { .. }
            | Publication::Direct { .. }
            | Publication::InMount { .. }
            | Publication::Unaudited => return at_ns,
        };
        let Some(object) = self.program.find(path) else { return at_ns };
        let known = &mut self.at(site).known;
        for &part in parts {
            let bit = bit(object, part);
            known[bit as usize / 64] |= 1 << (bit % 64);
        }
        self.work(site, at_ns, self.costs.publish)
    }
}

/// Returns the approximate length of a message, without content.
fn message_bytes(message: &Message) -> u64 {
    let path = |path: &headwater_abi::Path| path.as_bytes().len() as u64;
    match message {
        Message::Want { path: at, .. } | Message::Unavailable { path: at, .. } => path(at),
        Message::Known { path: at, fact } => path(at) + fact_bytes(fact),
        Message::File { path: at, head, .. }
        | Message::Content { path: at, head, .. }
        | Message::Large { path: at, head, .. } => path(at) + 80 + 8 * head.ranges.len() as u64,
        Message::Details { path: at, details, .. } => {
            path(at) + details.iter().map(|detail| detail.name.len() as u64 + fact_bytes(&detail.fact)).sum::<u64>()
        }
        _ => 40,
    }
}

/// Returns the same of a fact; of a listing as of its names without their index.
fn fact_bytes(fact: &Fact) -> u64 {
    match fact {
        Fact::Absent | Fact::Error(_) => 2,
        Fact::Attr(_) | Fact::Unlistable(_) => 70,
        Fact::Link(_, target) => 70 + target.len() as u64,
        Fact::Listing(_, listing) => 70 + (listing.blob().len() as u64).saturating_sub(20 * listing.len() as u64),
    }
}
