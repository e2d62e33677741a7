//! Links to the parent and to the children, and what comes over them.

use alloc::vec::Vec;

use headwater_abi::Path;
use headwater_abi::wire::Message;

use super::ask::EIO;
use super::content::{Offer, Refusal};
use super::{Link, Node};
use crate::asks::{ChildWant, Waiter};
use crate::entries::is_sound;
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
        let live: Vec<(Path, bool)> = self.live.iter().map(|(path, tree)| (path.clone(), tree)).collect();
        for (path, tree) in live {
            self.send(rank, Message::Live { path, tree });
        }
    }

    fn parent_up(&mut self, now: Time) {
        self.parent_down(now);
        let Some(parent) = &mut self.parent else { return };
        parent.link = Link::Up;
        parent.newest = None;
        for key in self.asks.keys(|_, ask| !ask.is_sent) {
            if let Some(ask) = self.asks.get_mut(&key) {
                ask.is_sent = true;
            }
            self.send_want(&key);
        }
    }

    pub(super) fn peer_down(&mut self, now: Time, rank: Rank) {
        match &mut self.parent {
            Some(parent) if parent.rank == rank => {
                self.parent_down(now);
                // Also the questions that waited for its first sign of life.
                self.fail_all(|_| true);
                if let Some(parent) = &mut self.parent {
                    parent.link = Link::Down;
                }
            }
            _ => self.child_down(rank),
        }
    }

    /// What was asked of the parent is answered by nobody.
    fn parent_down(&mut self, now: Time) {
        let Some(parent) = &mut self.parent else { return };
        let arriving: Vec<Path> = core::mem::take(&mut parent.incoming).into_values().collect();
        for path in arriving {
            self.abandon(now, &path, EIO, false);
        }
        self.fail_all(|is_sent| is_sent);
    }

    fn fail_all(&mut self, matches: impl Fn(bool) -> bool) {
        for key in self.asks.keys(|_, ask| matches(ask.is_sent)) {
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
                let path = self.parent.as_ref().and_then(|p| p.incoming.get(&transfer)).cloned();
                if let Some(path) = path {
                    self.abandon(now, &path, errno, false);
                }
                Ok(())
            }
            Message::Unavailable { path, aspect } => {
                self.fail_for_now(now, &(path, aspect));
                Ok(())
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
        let path = offer.path.clone();
        match self.file_offered(now, offer) {
            Ok(()) => Ok(()),
            Err(Refusal::Breach(reason)) => Err(reason),
            Err(refusal) => {
                self.send(from, Message::Cancel { transfer });
                if matches!(refusal, Refusal::Impossible) {
                    self.fail_content(now, &path);
                }
                Ok(())
            }
        }
    }

    /// An answer came that can't be taken: those who wait for it use the original.
    fn fail_unknown(&mut self, now: Time, path: &Path) {
        let entries = &self.entries;
        let keys = self.asks.keys(|(asked, aspect), _| asked == path && !entries.knows(asked, *aspect));
        for key in keys {
            self.fail_for_now(now, &key);
        }
    }
}

fn is_canonical(message: &Message) -> bool {
    match message {
        Message::Want { path, .. }
        | Message::Known { path, .. }
        | Message::File { path, .. }
        | Message::Unavailable { path, .. }
        | Message::Live { path, .. } => path.components().all(|c| c != b".."),
        Message::Hello { .. }
        | Message::Cancel { .. }
        | Message::Chunk { .. }
        | Message::Failed { .. }
        | Message::Alive => true,
    }
}
