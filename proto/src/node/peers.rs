//! Links to parents and children, and their messages.

use alloc::vec::Vec;

use headwater_abi::Path;
use headwater_abi::wire::Message;

use super::Node;
use super::content::{Offer, Refusal};
use crate::entry::{Piece, block_of, is_sound};
use crate::pending::{ChildWant, Key, Route, Waiter};
use crate::state::parent::{Joined, Link};
use crate::topology::TreeId;
use crate::transfer::Child;
use crate::{Output, Peer, Rank, Time};

impl Node {
    pub(super) fn peer_up(&mut self, now: Time, peer: Peer) {
        match peer {
            Peer::Parent(rank) => self.parent_up(now, rank),
            Peer::Child(rank) => self.child_up(rank),
        }
    }

    pub(super) fn peer_down(&mut self, now: Time, peer: Peer) {
        match peer {
            Peer::Parent(rank) => self.parent_down(now, rank),
            Peer::Child(rank) => self.child_down(rank),
        }
    }

    fn child_up(&mut self, rank: Rank) {
        let (forest, own) = (self.config.forest, self.config.rank);
        let may_turn = |tree: TreeId| {
            forest.contains(tree, rank) && forest.contains(tree, own) && forest.may_turn_to(tree, rank, own)
        };
        // The readers of groups get the reports of the first group's.
        let mut others = forest.tree_ids().skip(1).filter(|_| !forest.is_striped());
        let may_hear = forest.candidates(TreeId(0)).any(|candidate| candidate == own)
            && others.any(|tree| forest.candidates(tree).any(|candidate| candidate == rank));
        // Readers send requests downstream for what they have evicted.
        let may_check =
            |tree: TreeId| forest.contains(tree, own) && forest.candidates(tree).any(|candidate| candidate == rank);
        let may_request = |tree: TreeId| may_turn(tree) || may_check(tree);
        if rank == own || rank.0 >= forest.ranks() || !(may_hear || forest.tree_ids().any(may_request)) {
            let peer = Peer::Child(rank);
            return self.outputs.push_back(Output::Disconnect { peer, reason: "it has nothing to ask here" });
        }
        self.child_down(rank);
        let joined = Joined::at_first(&forest, rank, own);
        let is_control = joined.is_control;
        self.children.insert(rank, Child::new(joined));
        self.announce_generation(rank);
        if is_control {
            self.send_passthrough_paths(Peer::Child(rank));
        }
    }

    /// Sends a peer the passthrough paths, and whether programs run that don't announce their changes. A
    /// parent gets none that it has reported itself, since a later generation may serve those again.
    pub(super) fn send_passthrough_paths(&mut self, peer: Peer) {
        if self.is_unaudited {
            self.send(peer, Message::Unaudited);
        }
        let passthrough: Vec<(Path, bool)> = match peer {
            Peer::Child(_) => self.passthrough.iter().map(|(path, tree)| (path.clone(), tree)).collect(),
            Peer::Parent(_) => self.passthrough.own().map(|(path, tree)| (path.clone(), tree)).collect(),
        };
        for (path, tree) in passthrough {
            self.send(peer, Message::Passthrough { path, tree });
        }
    }

    /// Returns whether the control parent may yet come up.
    pub(super) fn parent_may_return(&self) -> bool {
        let crate::topology::Up::To(rank) = self.control() else { return false };
        self.parents.get(&rank).is_some_and(|parent| matches!(parent.link, Link::Starting(_) | Link::Away(_)))
    }

    fn child_down(&mut self, rank: Rank) {
        if self.children.remove(&rank).is_some() {
            self.pending.forget_child(rank);
            self.changes_found(rank, 0, None, true);
        }
    }

    /// Closes a link on which the peer broke the protocol.
    pub(super) fn disconnect(&mut self, now: Time, peer: Peer, reason: &'static str) {
        self.outputs.push_back(Output::Disconnect { peer, reason });
        self.peer_down(now, peer);
    }

    pub(super) fn chunk_sent(&mut self, to: Rank) {
        if let Some(child) = self.children.get_mut(&to) {
            child.chunk_sent();
        }
    }

    pub(super) fn message(&mut self, now: Time, from: Peer, message: Message) {
        let is_up = match from {
            Peer::Parent(rank) => self.is_up(rank),
            Peer::Child(rank) => self.children.contains_key(&rank),
        };
        if !is_up {
            // The remaining messages of a link that is down.
            return;
        }
        if let Peer::Parent(rank) = from {
            self.heard(now, rank);
        }
        let result = match (from, message) {
            (_, message) if !is_canonical(&message) => Err("a path is not canonical"),
            (_, Message::Alive) => Ok(()),
            (_, Message::Probe) => {
                self.send(from, Message::Alive);
                Ok(())
            }
            (_, Message::Passthrough { path, tree }) => {
                self.begin_passthrough(&path, tree, Some(from));
                Ok(())
            }
            (_, Message::Unaudited) => {
                self.begin_unaudited(Some(from));
                Ok(())
            }
            (Peer::Parent(rank), message) => self.message_from_parent(now, rank, message),
            (Peer::Child(rank), message) => self.message_from_child(rank, message),
        };
        if let Err(reason) = result {
            self.disconnect(now, from, reason);
        }
    }

    fn message_from_child(&mut self, rank: Rank, message: Message) -> Result<(), &'static str> {
        match message {
            Message::Want { tree, path, aspect, position, only_stored } => {
                let tree = TreeId(tree);
                self.woken.push_back(Waiter::Child(ChildWant { rank, tree, path, aspect, position, only_stored }));
                Ok(())
            }
            Message::Join { trees, is_control, is_reader } => {
                let trees: Vec<TreeId> = trees.into_iter().map(TreeId).collect();
                let Some(child) = self.children.get_mut(&rank) else { return Ok(()) };
                let is_new_control = is_control && !child.joined.is_control;
                child.joined = Joined { trees, is_control, is_reader };
                if is_new_control {
                    self.send_passthrough_paths(Peer::Child(rank));
                }
                Ok(())
            }
            Message::Cancel { transfer } => {
                if let Some(child) = self.children.get_mut(&rank) {
                    child.cancel(transfer);
                }
                Ok(())
            }
            Message::Newer { generation } => {
                self.newer_below(generation);
                Ok(())
            }
            Message::Read { tree, versions } => self.versions_reported(rank, TreeId(tree), versions),
            Message::FoundChanges { number, changes, is_last } => {
                self.changes_found(rank, number, changes, is_last);
                Ok(())
            }
            Message::RefreshWanted { rank, request, paths } => {
                self.refresh_wanted(rank, request, paths);
                Ok(())
            }
            _ => Err("a child sends what only a parent may"),
        }
    }

    fn message_from_parent(&mut self, now: Time, from: Rank, message: Message) -> Result<(), &'static str> {
        if self.is_behind(from)
            && matches!(
                message,
                Message::Known { .. }
                    | Message::Details { .. }
                    | Message::Content { .. }
                    | Message::Large { .. }
                    | Message::Unavailable { .. }
            )
        {
            // Its message is of an older generation. The request is repeated when it has reached this one.
            return Ok(());
        }
        match message {
            Message::Known { path, fact } => {
                if !is_sound(&fact) {
                    return Err("a fact is malformed");
                }
                if !self.learn(now, &path, fact, true) {
                    self.fail_unknown(now, &path);
                }
                Ok(())
            }
            Message::File { transfer, path, aspect, head, position } => {
                self.file(now, from, Offer { transfer, path, aspect, head, position })
            }
            Message::Content { path, aspect, head, digest } => {
                let result = self.content_announced(now, from, (path.clone(), aspect), head, digest);
                self.content_refused(now, from, &path, result)
            }
            Message::Large { path, aspect, head } => self.large_announced(now, path, aspect, head),
            Message::Chunk { transfer, position, bytes } => self.chunk(now, from, transfer, position, bytes),
            Message::End { transfer, digest } => self.end(from, transfer, digest),
            Message::Again { transfer } => {
                if let Some(piece) = self.take_incoming(from, transfer) {
                    self.begin_again(piece, Some(from));
                    self.redispatch();
                }
                Ok(())
            }
            Message::Failed { transfer, errno } => {
                let piece = self.parents.get(&from).and_then(|parent| parent.incoming.get(&transfer)).cloned();
                if let Some((path, block)) = piece {
                    self.abandon(now, &path, block, errno, false);
                }
                Ok(())
            }
            Message::Details { path, details, is_last } => self.details_received(now, &path, details, is_last),
            Message::Unavailable { path, aspect } => {
                let key = (path, aspect);
                if self.downstream_source_declines(from, &key) {
                    return Ok(());
                }
                if self.pending.route(&key).is_none_or(|route| route == Route::Parent(from)) {
                    self.fail_for_now(now, &key);
                }
                Ok(())
            }
            Message::CheckChanges { number, paths } => {
                self.check_for_changes(from, number, paths);
                Ok(())
            }
            Message::Refresh { generation, changes, is_last, requesters } => {
                self.refresh_announced(from, generation, changes, is_last, requesters)
            }
            _ => Err("a parent sends what only a child may"),
        }
    }

    fn content_refused(
        &mut self,
        now: Time,
        from: Rank,
        path: &Path,
        result: Result<(), Refusal>,
    ) -> Result<(), &'static str> {
        match result {
            Ok(()) => {}
            Err(Refusal::Breach(reason)) => return Err(reason),
            Err(Refusal::Unwanted) => self.refused(from, path, None),
            Err(Refusal::Impossible) => self.fail_content(now, path, None),
        }
        Ok(())
    }

    fn take_incoming(&mut self, from: Rank, transfer: headwater_abi::wire::TransferId) -> Option<Piece> {
        self.parents.get_mut(&from)?.incoming.remove(&transfer)
    }

    fn file(&mut self, now: Time, from: Rank, offer: Offer) -> Result<(), &'static str> {
        let is_behind = self.is_behind(from);
        let Some(parent) = self.parents.get_mut(&from) else { return Err("content from nowhere") };
        let transfer = offer.transfer;
        if parent.newest.is_some_and(|newest| transfer <= newest) {
            return Err("a transfer's number is not new");
        }
        parent.newest = Some(transfer);
        let (path, block) = (offer.path.clone(), block_of(offer.aspect));
        let is_full = parent.incoming.len() >= self.config.limits.transfers_max;
        let result = match (is_behind, is_full) {
            (true, _) => Err(Refusal::Unwanted),
            (_, true) => Err(Refusal::Impossible),
            _ => self.file_offered(now, from, offer),
        };
        match result {
            Ok(()) => Ok(()),
            Err(Refusal::Breach(reason)) => Err(reason),
            Err(refusal) => {
                self.send(Peer::Parent(from), Message::Cancel { transfer });
                match refusal {
                    Refusal::Impossible => self.fail_content(now, &path, block),
                    _ if is_behind => {}
                    _ => self.refused(from, &path, block),
                }
                Ok(())
            }
        }
    }

    /// Ends the requests for an answer that can't be taken: clients use the source file.
    fn fail_unknown(&mut self, now: Time, path: &Path) {
        let unknown = self.pending.keys_of(path).filter(|(requested, aspect)| !self.entries.knows(requested, *aspect));
        for key in unknown.cloned().collect::<Vec<Key>>() {
            self.fail_for_now(now, &key);
        }
    }
}

fn is_canonical_path(path: &Path) -> bool {
    let is_up = |path: &[u8]| path.starts_with(b"/..") && matches!(path.get(3), None | Some(b'/'));
    let bytes = path.as_bytes();
    !(0..bytes.len()).any(|at| bytes[at] == b'/' && is_up(&bytes[at..]))
}

fn is_canonical(message: &Message) -> bool {
    match message {
        Message::Want { path, .. }
        | Message::Known { path, .. }
        | Message::Content { path, .. }
        | Message::File { path, .. }
        | Message::Large { path, .. }
        | Message::Unavailable { path, .. }
        | Message::Details { path, .. }
        | Message::Passthrough { path, .. } => is_canonical_path(path),
        Message::Refresh { changes, .. } => changes.iter().flatten().all(|change| is_canonical_path(&change.path)),
        Message::FoundChanges { changes, .. } => changes.iter().flatten().all(|change| is_canonical_path(&change.path)),
        Message::Read { versions, .. } => versions.iter().all(|version| is_canonical_path(&version.path)),
        Message::RefreshWanted { paths, .. } | Message::CheckChanges { paths, .. } => {
            paths.iter().all(is_canonical_path)
        }
        Message::Hello { .. }
        | Message::Join { .. }
        | Message::Cancel { .. }
        | Message::Chunk { .. }
        | Message::End { .. }
        | Message::Again { .. }
        | Message::Failed { .. }
        | Message::Newer { .. }
        | Message::Unaudited
        | Message::Probe
        | Message::Alive => true,
    }
}
