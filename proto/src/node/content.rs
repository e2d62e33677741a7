//! Content on its way into the store, from the reader or from the parent, and out of it again as
//! soon as it is there.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use headwater_abi::wire::{Aspect, Fact, FileHead, Message, TransferId};
use headwater_abi::{Kind, Path};

use super::Node;
use super::ask::EIO;
use crate::asks::{ChildWant, Waiter};
use crate::entries::{Arriving, Complete, aspect_of, covers};
use crate::policy::{Audience, Thing};
use crate::{Output, Publication, Time};

/// A file that the parent begins to send: the fields of its message.
pub(super) struct Offer {
    pub(super) transfer: TransferId,
    pub(super) path: Path,
    pub(super) aspect: Aspect,
    pub(super) head: FileHead,
    pub(super) position: u64,
}

/// Why a file is not received.
pub(super) enum Refusal {
    /// What it claims can't be.
    Breach(&'static str),
    /// It is of no use here.
    Unwanted,
    /// It is wanted, but can't be had.
    Impossible,
}

impl Node {
    /// The reader has opened a file.
    pub(super) fn file_opened(&mut self, now: Time, path: Path, aspect: Aspect, head: FileHead) {
        if self.reads.get(&path) != Some(&aspect) || self.entries.get(&path).is_some_and(|e| e.arriving.is_some()) {
            return;
        }
        if !is_content_head(&head, aspect) || !self.learn(now, &path, Fact::Attr(head.attr), false) {
            return self.stop_reading(now, &path);
        }
        if self.linked_content(&path, aspect).is_some() {
            self.reads.remove(&path);
            self.outputs.push_back(Output::Discard { path: path.clone() });
            self.adopt_hard_link(&path, aspect);
            return;
        }
        if !self.begin(now, &path, head, 0, None) {
            self.stop_reading(now, &path);
        }
    }

    /// The reader has come so far.
    pub(super) fn file_read(&mut self, now: Time, path: &Path, aspect: Aspect, position: u64) {
        if self.reads.get(path) == Some(&aspect) {
            self.advance(now, path, position);
        }
    }

    /// The reader has failed.
    pub(super) fn file_failed(&mut self, now: Time, path: &Path, aspect: Aspect, errno: u16) {
        if self.reads.get(path) != Some(&aspect) {
            return;
        }
        if !self.abandon(now, path, errno, false) {
            self.reads.remove(path);
            self.fail_content(now, path);
        }
    }

    fn stop_reading(&mut self, now: Time, path: &Path) {
        self.reads.remove(path);
        self.outputs.push_back(Output::Discard { path: path.clone() });
        self.fail_content(now, path);
    }

    /// The parent begins to send a file.
    pub(super) fn file_offered(&mut self, now: Time, offer: Offer) -> Result<(), Refusal> {
        let Offer { transfer, path, aspect, head, position } = offer;
        let path = &path;
        if !is_content_head(&head, Aspect::Loadable) || aspect != aspect_of(&head) {
            return Err(Refusal::Breach("a file's head is not that of such a file"));
        }
        if position != 0 {
            return Err(Refusal::Breach("a file starts where nobody asked for"));
        }
        if !self.scope.contains(path) || self.live.covers(path) {
            return Err(Refusal::Unwanted);
        }
        if let Some(entry) = self.entries.get(path) {
            let arrives_already = entry.arriving.as_ref().is_some_and(|a| covers(&a.head, aspect));
            if arrives_already || entry.has_content(aspect) {
                return Err(Refusal::Unwanted);
            }
        }
        if !self.learn(now, path, Fact::Attr(head.attr), false) {
            return Err(Refusal::Impossible);
        }
        self.supersede(path);
        if self.adopt_hard_link(path, aspect) {
            return Err(Refusal::Unwanted);
        }
        if !self.begin(now, path, head, position, Some(transfer)) {
            return Err(Refusal::Impossible);
        }
        Ok(())
    }

    /// Bytes of a file have arrived from the parent.
    pub(super) fn chunk(
        &mut self,
        now: Time,
        transfer: TransferId,
        position: u64,
        bytes: u32,
    ) -> Result<(), &'static str> {
        let Some(parent) = &self.parent else { return Err("a child sends content") };
        let Some(path) = parent.incoming.get(&transfer).cloned() else {
            // What this node has cancelled may still be on its way.
            let is_old = parent.newest.is_some_and(|newest| transfer <= newest);
            return if is_old { Ok(()) } else { Err("a chunk of no file") };
        };
        let arriving = self.entries.get(&path).and_then(|e| e.arriving.as_ref()).expect("what is sent arrives");
        if position != arriving.position {
            return Err("a chunk is out of order");
        }
        if arriving.head.locate(position).is_none_or(|(_, in_range)| u64::from(bytes) > in_range || bytes == 0) {
            return Err("a chunk reaches beyond its range");
        }
        self.advance(now, &path, position + u64::from(bytes));
        Ok(())
    }

    /// Makes room for content and lets those have it who wait for it. False if there is no room.
    fn begin(
        &mut self,
        now: Time,
        path: &Path,
        mut head: FileHead,
        position: u64,
        transfer: Option<TransferId>,
    ) -> bool {
        let Some(entry) = self.entries.get(path) else { return false };
        // Attributes are those that were seen first, so that all nodes say the same.
        head.attr = *entry.attr().expect("a file has attributes");
        let held = entry.complete.as_ref().map_or(0, |c| c.head.content_bytes());
        let reserved = head.content_bytes().saturating_sub(held);
        if !self.make_room(path, reserved) {
            return false;
        }
        self.sieve.take(reserved);
        let head = Arc::new(head);
        let Some(entry) = self.entries.get_mut(path) else { return false };
        let arriving = Arriving { head: head.clone(), position, reserved, transfer, unevictable: Vec::new() };
        entry.arriving = Some(Box::new(arriving));
        entry.content_at = Audience::default();
        if let (Some(transfer), Some(parent)) = (transfer, &mut self.parent) {
            parent.incoming.insert(transfer, path.clone());
            let head = (*head).clone();
            self.outputs.push_back(Output::Receive { from: parent.rank, transfer, path: path.clone(), head });
        }
        for aspect in [Aspect::Loadable, Aspect::Whole] {
            if let Some(ask) = self.asks.get_mut(&(path.clone(), aspect)) {
                self.woken.extend(core::mem::take(&mut ask.children).into_iter().map(Waiter::Child));
            }
        }
        self.fresh.push_back(Thing::Content(path.clone()));
        self.advance(now, path, position);
        true
    }

    /// The bytes before `position` are in the store.
    fn advance(&mut self, now: Time, path: &Path, position: u64) {
        let Some(arriving) = self.entries.get_mut(path).and_then(|e| e.arriving.as_mut()) else { return };
        let total = arriving.head.content_bytes();
        if position < arriving.position || position > total {
            return;
        }
        arriving.position = position;
        self.asks.note_progress(now, path);
        if position == total {
            self.complete(path);
        }
        for child in self.children.values_mut() {
            child.wake(path);
        }
    }

    /// All bytes are in the store.
    fn complete(&mut self, path: &Path) {
        let Some(entry) = self.entries.get_mut(path) else { return };
        let Some(arriving) = entry.arriving.take() else { return };
        let Arriving { head, reserved, transfer, .. } = *arriving;
        let held = entry.complete.take();
        match (transfer, &mut self.parent) {
            (Some(transfer), Some(parent)) => parent.incoming.remove(&transfer).map(drop),
            _ => self.reads.remove(path).map(drop),
        };
        let aspect = aspect_of(&head);
        if held.is_none()
            && let Some(target) = self.linked_content(path, aspect)
        {
            // It has arrived under two names at once.
            self.sieve.give_back(reserved);
            self.outputs.push_back(Output::Discard { path: path.clone() });
            return self.link(path, &target);
        }
        let order = held.as_ref().map_or_else(|| self.sieve.insert(path.clone()), |c| c.order);
        let bytes = reserved + held.map_or(0, |c| c.bytes);
        if let Some(entry) = self.entries.get_mut(path) {
            entry.complete = Some(Complete { head: head.clone(), bytes, order });
        }
        self.note_inode(path);
        self.publish(Publication::Content { path: path.clone(), aspect, head: (*head).clone() });
        self.wake(path);
    }

    /// Gives up what arrives of this path, for those below as well. False if nothing does.
    pub(super) fn abandon(&mut self, now: Time, path: &Path, errno: u16, tells_parent: bool) -> bool {
        let Some(arriving) = self.drop_arriving(path, tells_parent) else { return false };
        let aspect = aspect_of(&arriving.head);
        for (&to, child) in &mut self.children {
            let Some((transfer, is_announced)) = child.stop_content(path, &arriving.head) else { continue };
            let message = if is_announced {
                Message::Failed { transfer, errno }
            } else {
                Message::Unavailable { path: path.clone(), aspect }
            };
            self.outputs.push_back(Output::Send { to, message });
        }
        self.fail_content(now, path);
        true
    }

    /// More of this path's content is offered than what arrives: that gives way. Children that were
    /// being sent it get the new content, too.
    fn supersede(&mut self, path: &Path) {
        let Some(arriving) = self.drop_arriving(path, true) else { return };
        let aspect = aspect_of(&arriving.head);
        for (&rank, child) in &mut self.children {
            if child.stop_content(path, &arriving.head).is_some() {
                let want = ChildWant { rank, path: path.clone(), aspect, position: 0 };
                self.woken.push_back(Waiter::Child(want));
            }
        }
    }

    /// The path goes live: nothing more is sent or received of it.
    pub(super) fn forget_content(&mut self, path: &Path) {
        if self.drop_arriving(path, true).is_none() && self.reads.remove(path).is_some() {
            self.outputs.push_back(Output::Discard { path: path.clone() });
        }
        for child in self.children.values_mut() {
            child.stop(path);
        }
    }

    fn drop_arriving(&mut self, path: &Path, tells_parent: bool) -> Option<Box<Arriving>> {
        let arriving = self.entries.get_mut(path)?.arriving.take()?;
        self.sieve.give_back(arriving.reserved);
        self.outputs.push_back(Output::Discard { path: path.clone() });
        match (arriving.transfer, &mut self.parent) {
            (Some(transfer), Some(parent)) => {
                parent.incoming.remove(&transfer);
                if tells_parent {
                    let to = parent.rank;
                    self.outputs.push_back(Output::Send { to, message: Message::Cancel { transfer } });
                }
            }
            _ => {
                self.reads.remove(path);
            }
        }
        Some(arriving)
    }

    /// The store could not take this content.
    pub(super) fn store_failed(&mut self, now: Time, path: &Path) {
        if self.abandon(now, path, EIO, true) {
            return;
        }
        if self.reads.remove(path).is_some() {
            self.fail_content(now, path);
        }
        self.drop_complete(path);
    }
}

fn is_content_head(head: &FileHead, aspect: Aspect) -> bool {
    head.is_valid() && head.attr.kind() == Kind::File && covers(head, aspect)
}
