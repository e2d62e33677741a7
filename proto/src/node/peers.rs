//! Links to parents and children, and their messages.

use alloc::vec::Vec;

use headwater_abi::Path;
use headwater_abi::wire::Message;

use super::Node;
use super::content::{Offer, Refusal};
use crate::entry::is_sound;
use crate::pending::{ChildWant, Key, Route, Waiter};
use crate::state::confirm::Place;
use crate::state::parent::{Joined, Link};
use crate::topology::TreeId;
use crate::transfer::Child;
use crate::{Output, Peer, Rank};

impl Node {
    pub(super) fn peer_up(&mut self, peer: Peer) {
        match peer {
            Peer::Parent(rank) => self.parent_up(rank),
            Peer::Child(rank) => self.child_up(rank),
        }
    }

    pub(super) fn peer_down(&mut self, peer: Peer) {
        match peer {
            Peer::Parent(rank) => self.parent_down(rank),
            Peer::Child(rank) => self.child_down(rank),
        }
    }

    /// What was announced on a link that is gone is not confirmed any more: once it is back, all is announced anew.
    pub(super) fn forget_confirmations(&mut self, peer: Peer) {
        self.confirmations.forget(Place::Peer(peer));
        self.answer_confirmed();
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
            self.announce_to(peer, Message::Unaudited);
        }
        let passthrough: Vec<(Path, bool)> = match peer {
            Peer::Child(_) => self.passthrough.iter().map(|(path, tree)| (path.clone(), tree)).collect(),
            Peer::Parent(_) => self.passthrough.own().map(|(path, tree)| (path.clone(), tree)).collect(),
        };
        for (path, tree) in passthrough {
            self.announce_to(peer, Message::Passthrough { path, tree });
        }
    }

    /// Returns whether the control parent may yet come up.
    pub(super) fn parent_may_return(&self) -> bool {
        let crate::topology::Up::To(rank) = self.control() else { return false };
        self.parents.get(&rank).is_some_and(|parent| matches!(parent.link, Link::Starting(_) | Link::Away(_)))
    }

    fn child_down(&mut self, rank: Rank) {
        self.forget_confirmations(Peer::Child(rank));
        if let Some(child) = self.children.remove(&rank) {
            self.pending.forget_child(rank);
            self.changes_found(rank, 0, None, true);
            if child.joined.is_reader {
                self.reroute();
            }
        }
    }

    /// Closes a link on which the peer broke the protocol.
    pub(super) fn disconnect(&mut self, peer: Peer, reason: &'static str) {
        self.outputs.push_back(Output::Disconnect { peer, reason });
        self.peer_down(peer);
    }

    pub(super) fn chunk_sent(&mut self, to: Rank) {
        if let Some(child) = self.children.get_mut(&to) {
            child.chunk_sent();
        }
    }

    pub(super) fn message(&mut self, from: Peer, message: Message) {
        let is_up = match from {
            Peer::Parent(rank) => self.is_up(rank),
            Peer::Child(rank) => self.children.contains_key(&rank),
        };
        if !is_up {
            // The remaining messages of a link that is down.
            return;
        }
        if let Peer::Parent(rank) = from {
            self.heard(rank);
        }
        let result = match (from, message) {
            (_, message) if !is_canonical(&message) => Err("a path is not canonical"),
            (_, Message::Alive) => return,
            (_, Message::Probe) => return self.send(from, Message::Alive),
            (_, Message::Passthrough { path, tree }) => return self.begin_passthrough(&path, tree, Some(from)),
            (_, Message::Unaudited) => return self.begin_unaudited(Some(from)),
            (_, Message::Confirm { number }) => self.confirm_for_peer(from, number),
            (_, Message::Confirmed { number }) => self.confirmed(Place::Peer(from), number),
            (_, Message::Compare { path, attr }) => return self.compare_with_others(path, attr, from),
            (Peer::Parent(rank), message) => self.message_from_parent(rank, message),
            (Peer::Child(rank), message) => self.message_from_child(rank, message),
        };
        if let Err(reason) = result {
            self.disconnect(from, reason);
        }
    }

    fn message_from_child(&mut self, rank: Rank, message: Message) -> Result<(), &'static str> {
        match message {
            Message::Want { tree, path, aspect, position, only_stored } => {
                let tree = TreeId(tree);
                self.woken.push_back(Waiter::Child(ChildWant { rank, tree, path, aspect, position, only_stored }));
            }
            Message::Join { trees, is_control, is_reader } => {
                let trees: Vec<TreeId> = trees.into_iter().map(TreeId).collect();
                let Some(child) = self.children.get_mut(&rank) else { return Ok(()) };
                let is_new_control = is_control && !child.joined.is_control;
                let was_reader = child.joined.is_reader;
                child.joined = Joined { trees, is_control, is_reader };
                if is_new_control {
                    self.send_passthrough_paths(Peer::Child(rank));
                }
                if is_reader != was_reader {
                    self.reroute();
                }
            }
            Message::Cancel { transfer } => {
                if let Some(child) = self.children.get_mut(&rank) {
                    child.cancel(transfer);
                }
            }
            Message::Newer { generation } => self.newer_below(generation),
            Message::Read { tree, versions } => self.versions_reported(rank, TreeId(tree), versions)?,
            Message::FoundChanges { number, changes, is_last } => self.changes_found(rank, number, changes, is_last),
            Message::RefreshWanted { rank, request, paths } => self.refresh_wanted(rank, request, paths),
            _ => return Err("a child sends what only a parent may"),
        }
        Ok(())
    }

    fn message_from_parent(&mut self, from: Rank, message: Message) -> Result<(), &'static str> {
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
                if !self.learn(&path, fact, true) {
                    self.fail_unknown(&path);
                }
            }
            Message::File { transfer, path, aspect, head, position } => {
                self.file(from, Offer { transfer, path, aspect, head, position })?
            }
            Message::Content { path, aspect, head, digest } => {
                match self.content_announced(from, (path.clone(), aspect), head, digest) {
                    Ok(()) => {}
                    Err(Refusal::Breach(reason)) => return Err(reason),
                    Err(Refusal::Unwanted) => self.refused(from, &path, None),
                    Err(Refusal::Impossible) => self.fail_content(&path, None),
                }
            }
            Message::Large { path, aspect, head } => self.large_announced(path, aspect, head)?,
            Message::Chunk { transfer, position, bytes } => self.chunk(from, transfer, position, bytes)?,
            Message::End { transfer, digest } => self.end(from, transfer, digest)?,
            Message::Again { transfer } => {
                if let Some(piece) = self.parents.get_mut(&from).and_then(|parent| parent.incoming.remove(&transfer)) {
                    self.begin_again(piece, Some(from));
                    self.redispatch();
                }
            }
            Message::Failed { transfer, errno } => {
                let piece = self.parents.get(&from).and_then(|parent| parent.incoming.get(&transfer)).cloned();
                if let Some((path, block)) = piece {
                    self.abandon(&path, block, errno, false);
                }
            }
            Message::Details { path, details, is_last } => self.details_received(&path, details, is_last)?,
            Message::Unavailable { path, aspect } => {
                let key = (path, aspect);
                if self.downstream_source_declines(from, &key) {
                    return Ok(());
                }
                if self.pending.route(&key).is_none_or(|route| route == Route::Parent(from)) {
                    self.fail_for_now(&key);
                }
            }
            Message::CheckChanges { number, paths } => self.check_for_changes(from, number, paths),
            Message::Refresh { generation, changes, is_last, requesters } => {
                self.refresh_announced(from, generation, changes, is_last, requesters)?
            }
            _ => return Err("a parent sends what only a child may"),
        }
        Ok(())
    }

    fn file(&mut self, from: Rank, offer: Offer) -> Result<(), &'static str> {
        let is_behind = self.is_behind(from);
        let Some(parent) = self.parents.get_mut(&from) else { return Err("content from nowhere") };
        let transfer = offer.transfer;
        if parent.newest.is_some_and(|newest| transfer <= newest) {
            return Err("a transfer's number is not new");
        }
        parent.newest = Some(transfer);
        let (path, block) = (offer.path.clone(), offer.aspect.block());
        let is_full = parent.incoming.len() >= self.config.limits.transfers_max;
        let result = match (is_behind, is_full) {
            (true, _) => Err(Refusal::Unwanted),
            (_, true) => Err(Refusal::Impossible),
            _ => self.file_offered(from, offer),
        };
        match result {
            Ok(()) => Ok(()),
            Err(Refusal::Breach(reason)) => Err(reason),
            Err(refusal) => {
                self.send(Peer::Parent(from), Message::Cancel { transfer });
                match refusal {
                    Refusal::Impossible => self.fail_content(&path, block),
                    _ if is_behind => {}
                    _ => self.refused(from, &path, block),
                }
                Ok(())
            }
        }
    }

    /// Ends the requests for an answer that can't be taken: clients use the source file.
    fn fail_unknown(&mut self, path: &Path) {
        let unknown = self.pending.keys_of(path).filter(|(requested, aspect)| !self.entries.knows(requested, *aspect));
        for key in unknown.cloned().collect::<Vec<Key>>() {
            self.fail_for_now(&key);
        }
    }
}

fn is_canonical_path(path: &Path) -> bool {
    path.components().all(|name| name != b"..")
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
        | Message::Passthrough { path, .. }
        | Message::Compare { path, .. } => is_canonical_path(path),
        Message::Refresh { changes, .. } | Message::FoundChanges { changes, .. } => {
            changes.iter().flatten().all(|change| is_canonical_path(&change.path))
        }
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
        | Message::Confirm { .. }
        | Message::Confirmed { .. }
        | Message::Probe
        | Message::Alive => true,
    }
}
