//! Links to the parent and to the children, and what comes over them.

use alloc::vec::Vec;

use headwater_abi::Path;
use headwater_abi::wire::Message;

use super::ask::EIO;
use super::content::{Offer, Refusal};
use super::{Link, Node};
use crate::asks::{ChildWant, Key, Waiter, Way};
use crate::entry::{Piece, block_of, is_sound};
use crate::transfer::Child;
use crate::{Output, Rank, Time};

impl Node {
    pub(super) fn peer_up(&mut self, now: Time, rank: Rank) {
        if self.parent.as_ref().is_some_and(|parent| parent.rank == rank) {
            self.parent_up(now);
        } else if self.config.topology.ancestors(rank).any(|ancestor| ancestor == self.config.rank) {
            self.child_down(rank);
            self.children.insert(rank, Child::default());
        } else {
            self.outputs.push_back(Output::Disconnect { rank, reason: "not a neighbour in the tree" });
            return;
        }
        // The parent knows itself what it told, unless a later generation knows it again.
        let live: Vec<(Path, bool)> = if self.children.contains_key(&rank) {
            self.announce_generation(rank);
            self.live.iter().map(|(path, tree)| (path.clone(), tree)).collect()
        } else {
            self.live.own().map(|(path, tree)| (path.clone(), tree)).collect()
        };
        for (path, tree) in live {
            self.send(rank, Message::Live { path, tree });
        }
    }

    fn parent_up(&mut self, now: Time) {
        self.parent_away(now);
        let Some(parent) = &mut self.parent else { return };
        parent.link = Link::Up;
        parent.newest = None;
        for key in self.asks.keys(|_, ask| ask.way == Way::Later) {
            self.asks.set_way(&key, Way::Asked);
            self.send_want(&key);
        }
    }

    pub(super) fn peer_down(&mut self, now: Time, rank: Rank) {
        match &mut self.parent {
            Some(parent) if parent.rank == rank => {
                self.parent_away(now);
                self.end_absence(now);
            }
            _ => self.child_down(rank),
        }
    }

    /// What was asked of the parent is answered by nobody.
    pub(super) fn parent_down(&mut self, now: Time) {
        let Some(parent) = &mut self.parent else { return };
        let arriving: Vec<Piece> = core::mem::take(&mut parent.incoming).into_values().collect();
        for (path, block) in arriving {
            self.abandon(now, &path, block, EIO, false);
        }
        self.fail_all(|way| way == Way::Asked);
    }

    pub(super) fn fail_all(&mut self, matches: impl Fn(Way) -> bool) {
        for key in self.asks.keys(|_, ask| matches(ask.way)) {
            self.fail(&key);
        }
    }

    fn child_down(&mut self, rank: Rank) {
        if self.children.remove(&rank).is_some() {
            self.asks.forget_child(rank);
        }
    }

    /// Closes a link on which the peer broke the protocol.
    pub(super) fn disconnect(&mut self, now: Time, rank: Rank, reason: &'static str) {
        self.outputs.push_back(Output::Disconnect { rank, reason });
        self.peer_down(now, rank);
    }

    pub(super) fn chunk_sent(&mut self, to: Rank) {
        if let Some(child) = self.children.get_mut(&to) {
            child.chunk_sent();
        }
    }

    pub(super) fn message(&mut self, now: Time, from: Rank, message: Message) {
        let is_parent = self.parent.as_ref().is_some_and(|p| p.rank == from && p.link == Link::Up);
        if !is_parent && !self.children.contains_key(&from) {
            // The last words on a link that is down.
            return;
        }
        let result = match message {
            _ if !is_canonical(&message) => Err("a path is not canonical"),
            Message::Alive => Ok(()),
            Message::Live { path, tree } => {
                self.go_live(&path, tree, Some(from));
                Ok(())
            }
            _ if is_parent => self.message_from_parent(now, from, message),
            _ => self.message_from_child(from, message),
        };
        if let Err(reason) = result {
            self.disconnect(now, from, reason);
        }
    }

    fn message_from_child(&mut self, rank: Rank, message: Message) -> Result<(), &'static str> {
        match message {
            Message::Want { path, aspect, position } => {
                self.woken.push_back(Waiter::Child(ChildWant { rank, path, aspect, position }));
                Ok(())
            }
            Message::Cancel { transfer } => {
                if let Some(child) = self.children.get_mut(&rank) {
                    child.cancel(transfer);
                }
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
            Message::Chunk { transfer, position, bytes } => self.chunk(now, transfer, position, bytes),
            Message::Failed { transfer, errno } => {
                let piece = self.parent.as_ref().and_then(|p| p.incoming.get(&transfer)).cloned();
                if let Some((path, block)) = piece {
                    self.abandon(now, &path, block, errno, false);
                }
                Ok(())
            }
            Message::Details { path, details, is_last } => self.details_told(now, &path, details, is_last),
            Message::Unavailable { path, aspect } => {
                self.fail_for_now(now, &(path, aspect));
                Ok(())
            }
            Message::Refresh { generation, changes, is_last, askers } => {
                self.refresh_announced(generation, changes, is_last, askers)
            }
            _ => Err("a parent sends what only a child may"),
        }
    }

    fn file(&mut self, now: Time, from: Rank, offer: Offer) -> Result<(), &'static str> {
        let Some(parent) = &mut self.parent else { return Err("content from nowhere") };
        let transfer = offer.transfer;
        if parent.newest.is_some_and(|newest| transfer <= newest) {
            return Err("a transfer's number is not new");
        }
        parent.newest = Some(transfer);
        let (path, block) = (offer.path.clone(), block_of(offer.aspect));
        match self.file_offered(now, offer) {
            Ok(()) => Ok(()),
            Err(Refusal::Breach(reason)) => Err(reason),
            Err(refusal) => {
                self.send(from, Message::Cancel { transfer });
                if matches!(refusal, Refusal::Impossible) {
                    self.fail_content(now, &path, block);
                }
                Ok(())
            }
        }
    }

    /// An answer came that can't be taken: those who wait for it use the original.
    fn fail_unknown(&mut self, now: Time, path: &Path) {
        let unknown = self.asks.keys_of(path).filter(|(asked, aspect)| !self.entries.knows(asked, *aspect));
        for key in unknown.cloned().collect::<Vec<Key>>() {
            self.fail_for_now(now, &key);
        }
    }
}

fn is_canonical_path(path: &Path) -> bool {
    path.components().all(|component| component != b"..")
}

fn is_canonical(message: &Message) -> bool {
    match message {
        Message::Want { path, .. }
        | Message::Known { path, .. }
        | Message::File { path, .. }
        | Message::Unavailable { path, .. }
        | Message::Details { path, .. }
        | Message::Live { path, .. } => is_canonical_path(path),
        Message::Refresh { changes, .. } => changes.iter().flatten().all(|change| is_canonical_path(&change.path)),
        Message::RefreshWanted { paths, .. } => paths.iter().all(is_canonical_path),
        Message::Hello { .. }
        | Message::Cancel { .. }
        | Message::Chunk { .. }
        | Message::Failed { .. }
        | Message::Alive => true,
    }
}
