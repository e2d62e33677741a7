//! What is recorded of the node's inputs and outputs.

use headwater_abi::wire::{Fact, Message};
use headwater_abi::{Path, Want};
use headwater_proto::{Input, Output, Peer, Publication, Time};
use headwater_report::job::{Cause, EventKind, Kind, Relation, Source};

use super::kinds::kind_of;
use super::paths::{Leg, Piece};
use super::{CHILD_REQUESTS_MAX, Recorder, Waiting, add_wait};

impl Recorder {
    /// Notes an input, before the node handles it.
    pub(crate) fn input(&mut self, input: &Input) {
        let now_us = self.now_us();
        self.cause = self.cause_of(input);
        match input {
            Input::Request { client, path, want } => self.requested(now_us, *client, path, *want, false),
            Input::RequestBlock { client, path, .. } => self.requested(now_us, *client, path, Want::WHOLE, false),
            Input::Preload { client, path, want, .. } => self.requested(now_us, *client, path, *want, true),
            Input::ClientGone { client } => {
                let gone = self.waiting.remove(client);
                self.processes_waiting -= u64::from(gone.is_some_and(|waiting| !waiting.is_preload));
            }
            // The first link to a peer is no event.
            Input::PeerUp { peer } if self.lost.remove(&end(*peer)) => {
                self.event(EventKind::LinkUp, None, Some(peer.rank().0));
            }
            Input::PeerDown { peer } => {
                self.lost.insert(end(*peer));
                self.event(EventKind::LinkDown, None, Some(peer.rank().0));
            }
            Input::Message { from, message } => self.received(now_us, *from, message),
            Input::FileRead { path, aspect, position } => self.paths.progress(path, Piece::of(*aspect), *position),
            Input::FileFailed { path, aspect, .. } => drop(self.paths.end(now_us, path, Piece::of(*aspect))),
            Input::DetailsRead { path, .. } => drop(self.paths.end(now_us, path, Piece::Details)),
            Input::Cached { path, aspect, found } => {
                let bytes = found.as_ref().map_or(0, |(head, _)| head.content_bytes());
                self.paths.progress(path, Piece::of(*aspect), bytes);
                self.paths.end(now_us, path, Piece::of(*aspect));
            }
            Input::StoreFailed { path, .. } => self.event(EventKind::StoreFull, Some(path), None),
            _ => {}
        }
    }

    /// Returns why the node fetches what it fetches next. Of a result it is not known; a process that waits is the most
    /// likely reason.
    fn cause_of(&self, input: &Input) -> Cause {
        match input {
            Input::Request { .. } | Input::RequestBlock { .. } => Cause::Process,
            Input::Preload { .. } => Cause::Preload,
            Input::Message { from: Peer::Child(_), .. } => Cause::Child,
            _ if self.processes_waiting > 0 => Cause::Process,
            _ if !self.waiting.is_empty() => Cause::Preload,
            _ => Cause::Child,
        }
    }

    fn requested(
        &mut self,
        now_us: Time,
        client: headwater_proto::ClientId,
        path: &Path,
        want: Want,
        is_preload: bool,
    ) {
        // Such requests announce something and want nothing.
        if want.intersects(Want::PASSTHROUGH | Want::UNAUDITED) {
            return;
        }
        let since_us = self.began.take().map_or(now_us, |began| self.since_start(began).min(now_us));
        self.processes_waiting += u64::from(!is_preload);
        self.waiting.insert(client, Waiting { path: path.clone(), want, since_us, is_preload });
    }

    fn received(&mut self, now_us: Time, from: Peer, message: &Message) {
        let (relation, rank) = end(from);
        let received = &mut self.link(relation, rank).received;
        received.messages += 1;
        received.bytes += message.content_bytes();
        match (message, relation) {
            (Message::Want { path, aspect, .. }, Relation::Child) => {
                if let Some(row) = self.paths.row(path) {
                    row.child_requests += 1;
                }
                if self.child_requests.len() < CHILD_REQUESTS_MAX {
                    self.child_requests.insert((rank, path.clone(), Piece::of(*aspect)), now_us);
                }
            }
            (Message::Content { path, head, .. }, Relation::Parent) => {
                if let Some(row) = self.paths.row(path) {
                    row.parent_bytes += head.content_bytes();
                }
                self.came_from(path, rank);
            }
            (
                Message::File { path, .. } | Message::Known { path, .. } | Message::Large { path, .. },
                Relation::Parent,
            ) => {
                self.came_from(path, rank);
                if matches!(message, Message::Large { .. }) {
                    self.fetched(now_us, path, Piece::Content);
                }
            }
            (Message::Details { path, is_last: true, .. }, Relation::Parent) => {
                self.fetched(now_us, path, Piece::Details)
            }
            (Message::Chunk { transfer, bytes, .. }, Relation::Parent) => {
                if let Some((path, _)) = self.transfers.get(&(rank, transfer.0)).cloned()
                    && let Some(row) = self.paths.row(&path)
                {
                    row.parent_bytes += u64::from(*bytes);
                }
            }
            (Message::End { transfer, .. } | Message::Failed { transfer, .. }, Relation::Parent) => {
                self.transfers.remove(&(rank, transfer.0));
            }
            (Message::Unavailable { path, aspect }, Relation::Parent) => {
                self.fetched(now_us, path, Piece::of(*aspect));
                self.event(EventKind::Unavailable, Some(path), Some(rank));
            }
            _ => {}
        }
    }

    /// Notes that a parent sent something of a path that is recorded, perhaps without a request.
    fn came_from(&mut self, path: &Path, rank: u32) {
        if let Some(row) = self.paths.known(path).filter(|row| row.source == Source::None) {
            (row.source, row.source_rank) = (Source::Parent, rank);
        }
    }

    /// Ends a fetch, and counts its time for the link.
    fn fetched(&mut self, now_us: Time, path: &Path, piece: Piece) {
        if let Some((Leg::Parent(rank), us)) = self.paths.end(now_us, path, piece) {
            let waits = &mut self.link(Relation::Parent, rank).waits;
            waits.requests += 1;
            waits.wait_us += us;
        }
    }

    /// Notes an output, when it is executed.
    pub(crate) fn output(&mut self, output: &Output) {
        let now_us = self.now_us();
        let cause = self.cause;
        match output {
            Output::Send { to, message } => self.sent(now_us, *to, message),
            Output::SendContent { to, path, head, .. } => {
                let sent = &mut self.link(Relation::Child, to.0).sent;
                sent.messages += 1;
                sent.bytes += head.content_bytes();
                self.answered(now_us, to.0, path, Piece::Content);
            }
            Output::SendChunk { to, bytes, .. } => {
                let sent = &mut self.link(Relation::Child, to.0).sent;
                sent.messages += 1;
                sent.bytes += u64::from(*bytes);
            }
            Output::ReadEntry { path } => self.paths.begin(now_us, (path, Piece::Entry), Leg::SharedFs, cause, 0),
            Output::ReadListing { path } => self.paths.begin(now_us, (path, Piece::Listing), Leg::SharedFs, cause, 0),
            Output::ReadDetails { path, .. } => {
                self.paths.begin(now_us, (path, Piece::Details), Leg::SharedFs, cause, 0)
            }
            Output::ReadFile { path, aspect, have, .. } => {
                let piece = Piece::of(*aspect);
                let have = have.as_ref().filter(|_| piece == Piece::Content);
                let before = have.map_or(0, |have| have.content_bytes());
                self.paths.begin(now_us, (path, piece), Leg::SharedFs, cause, before);
            }
            Output::FindCached { path, aspect, .. } => {
                self.paths.begin(now_us, (path, Piece::of(*aspect)), Leg::Cache, cause, 0);
            }
            Output::Receive { from, transfer, path, block, .. } => {
                let piece = block.map_or(Piece::Content, Piece::Block);
                self.transfers.insert((from.0, transfer.0), (path.clone(), piece));
                self.came_from(path, from.0);
            }
            Output::Publish(publication) => self.published(now_us, publication),
            Output::Evict { path } => self.event(EventKind::Evicted, Some(path), None),
            Output::Mismatch { path, from } => self.event(EventKind::Damaged, Some(path), Some(from.0)),
            Output::Changed { path } => self.event(EventKind::Changed, Some(path), None),
            _ => {}
        }
    }

    fn sent(&mut self, now_us: Time, to: Peer, message: &Message) {
        let (relation, rank) = end(to);
        self.link(relation, rank).sent.messages += 1;
        match (message, relation) {
            (Message::Want { path, aspect, .. }, Relation::Parent) => {
                let cause = self.cause;
                self.paths.begin(now_us, (path, Piece::of(*aspect)), Leg::Parent(rank), cause, 0);
            }
            (Message::Known { path, .. }, Relation::Child) => {
                for piece in [Piece::Entry, Piece::Listing, Piece::Content] {
                    self.answered(now_us, rank, path, piece);
                }
            }
            (Message::Large { path, .. }, Relation::Child) => self.answered(now_us, rank, path, Piece::Content),
            (Message::Details { path, is_last: true, .. }, Relation::Child) => {
                self.answered(now_us, rank, path, Piece::Details);
            }
            (Message::File { path, aspect, .. } | Message::Unavailable { path, aspect }, Relation::Child) => {
                self.answered(now_us, rank, path, Piece::of(*aspect));
            }
            _ => {}
        }
    }

    /// Ends the wait of a child, if it has requested this.
    fn answered(&mut self, now_us: Time, rank: u32, path: &Path, piece: Piece) {
        if self.child_requests.is_empty() {
            return;
        }
        let Some(since_us) = self.child_requests.remove(&(rank, path.clone(), piece)) else { return };
        let legs = self.paths.legs(path, since_us, now_us);
        add_wait(&mut self.link(Relation::Child, rank).waits, now_us - since_us, &legs);
    }

    fn published(&mut self, now_us: Time, publication: &Publication) {
        match publication {
            Publication::Fact { path, fact } => {
                self.fetched(now_us, path, Piece::Entry);
                self.fetched(now_us, path, Piece::Listing);
                // The names of a directory are too many.
                let row = match fact {
                    Fact::Listing(..) => self.paths.row(path),
                    _ => self.paths.known(path),
                };
                if let Some(row) = row {
                    row.kind = kind_of(fact).unwrap_or(row.kind);
                    row.arrived_us = now_us;
                }
            }
            Publication::Content { path, .. } | Publication::HardLink { path, .. } => {
                self.fetched(now_us, path, Piece::Content);
                self.file_arrived(now_us, path);
            }
            Publication::Block { path, block, .. } => {
                self.fetched(now_us, path, Piece::Block(*block));
                self.file_arrived(now_us, path);
            }
            Publication::Direct { path } | Publication::InMount { path, .. } => {
                self.fetched(now_us, path, Piece::Content);
                self.file_arrived(now_us, path);
            }
            Publication::Passthrough { path, .. } => self.event(EventKind::Passthrough, Some(path), None),
            Publication::Arrived { .. } | Publication::Unaudited => {}
        }
    }

    fn file_arrived(&mut self, now_us: Time, path: &Path) {
        if let Some(row) = self.paths.row(path) {
            (row.kind, row.arrived_us) = (Kind::File, now_us);
        }
    }
}

fn end(peer: Peer) -> (Relation, u32) {
    match peer {
        Peer::Parent(rank) => (Relation::Parent, rank.0),
        Peer::Child(rank) => (Relation::Child, rank.0),
    }
}

#[cfg(test)]
mod tests {
    use headwater_abi::wire::Aspect;
    use headwater_proto::{ClientId, Rank};

    use super::*;

    fn path(text: &str) -> Path {
        Path::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_request_is_followed_to_its_answer() {
        let mut recorder = Recorder::of(3, "n3".into(), false);
        let (file, client) = (path("/sw/x"), ClientId(1));
        recorder.input(&Input::Request { client, path: file.clone(), want: Want::WHOLE });
        assert_eq!(recorder.waiting(client), Some((file.clone(), Want::WHOLE)));
        let want =
            Message::Want { tree: 0, path: file.clone(), aspect: Aspect::Whole, position: 0, only_stored: false };
        recorder.output(&Output::Send { to: Peer::Parent(Rank(1)), message: want.clone() });
        recorder.input(&Input::Message { from: Peer::Child(Rank(5)), message: want });
        let unavailable = Message::Unavailable { path: file.clone(), aspect: Aspect::Whole };
        recorder.output(&Output::Publish(Publication::Direct { path: file.clone() }));
        recorder.output(&Output::Send { to: Peer::Child(Rank(5)), message: unavailable });
        let resolved = super::super::Resolved { path: file.clone(), kind: Some(Kind::File) };
        recorder.replied(client, Some(resolved));
        let absent = super::super::Resolved { path: path("/sw/absent"), kind: None };
        recorder.input(&Input::Request { client: ClientId(2), path: path("/sw/absent"), want: Want::ATTR });
        recorder.replied(ClientId(2), Some(absent));
        let part = recorder.finish(|_| 4096);
        let row = part.paths.iter().find(|row| row.hash == file.hash()).unwrap();
        assert_eq!((row.source, row.source_rank, row.cause), (Source::Parent, 1, Cause::Process));
        assert_eq!((row.requests, row.child_requests, row.stored_bytes), (1, 1, 4096));
        assert!(row.fetched_us > 0 && row.arrived_us >= row.fetched_us);
        let directory = part.paths.iter().find(|row| row.hash == path("/sw").hash()).unwrap();
        assert_eq!((directory.requests, directory.absent), (1, 1));
        assert_eq!((part.processes.requests, part.processes.fallbacks), (2, 0));
        assert_eq!(part.links.len(), 2);
        let (parent, child) = (&part.links[0], &part.links[1]);
        assert_eq!((parent.rank, parent.relation, parent.waits.requests), (1, Relation::Parent, 1));
        assert_eq!((child.rank, child.relation, child.waits.requests), (5, Relation::Child, 1));
    }

    #[test]
    fn events_and_snapshots_have_limits() {
        let mut recorder = Recorder::of(0, String::new(), true);
        for _ in 0..600 {
            recorder.output(&Output::Evict { path: path("/sw/x") });
            recorder.snapshot(Default::default());
        }
        let part = recorder.finish(|_| 0);
        assert!(part.is_successor);
        assert_eq!((part.events.len(), part.events_left_out), (512, 88));
        assert!(part.snapshots.len() <= 64 && part.snapshots.len() > 16);
    }
}
