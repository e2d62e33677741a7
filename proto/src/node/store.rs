//! The store's room: eviction, and files that have several names.

use alloc::sync::Arc;

use headwater_abi::Path;
use headwater_abi::wire::Aspect;

use super::ask::EIO;
use super::{Evicted, Node};
use crate::entries::{Complete, aspect_of, inode_of, is_same_version};
use crate::policy::{Audience, Thing};
use crate::{Output, Publication, Time};

/// Evictions that can still be refused.
const EVICTED_MAX: usize = 256;

impl Node {
    /// Evicts until `bytes` more fit. False if they can't.
    pub(super) fn make_room(&mut self, path: &Path, bytes: u64) -> bool {
        let max = self.config.limits.store_bytes_max;
        while self.sieve.bytes().saturating_add(bytes) > max {
            if bytes > max {
                return false;
            }
            let (entries, children) = (&self.entries, &self.children);
            let arriving = entries.get(path).and_then(|e| e.arriving.as_ref());
            let may_go = |candidate: &Path| {
                candidate != path
                    && arriving.is_none_or(|a| !a.unevictable.contains(candidate))
                    && entries.get(candidate).is_some_and(|e| e.arriving.is_none())
                    && !children.values().any(|child| child.needs(candidate))
            };
            let Some(victim) = self.sieve.victim(may_go) else { return false };
            self.evict(victim, path);
        }
        true
    }

    fn evict(&mut self, path: Path, for_path: &Path) {
        let before = self.sieve.bytes();
        let attr = self.entries.get(&path).and_then(|e| e.attr());
        let names = attr.and_then(|attr| self.inodes.get(&inode_of(attr)));
        let is_shared = names.is_some_and(|names| names.contains(&path));
        let Some(Complete { head, .. }) = self.drop_complete(&path) else { return };
        self.stats.evictions += 1;
        if self.evicted.len() == EVICTED_MAX {
            self.evicted.pop_front();
        }
        let bytes = before - self.sieve.bytes();
        self.evicted.push_back(Evicted { path: path.clone(), head, bytes, is_shared, for_path: for_path.clone() });
        self.outputs.push_back(Output::Evict { path });
    }

    /// The content stays after all, since a process uses it; something else has to go.
    pub(super) fn evict_refused(&mut self, now: Time, path: &Path) {
        let Some(at) = self.evicted.iter().rposition(|e| e.path == *path) else { return };
        let Some(Evicted { head, bytes, is_shared, for_path, .. }) = self.evicted.remove(at) else { return };
        let Some(entry) = self.entries.get_mut(path) else { return };
        if entry.complete.is_some() || entry.arriving.is_some() {
            return;
        }
        let order = self.sieve.insert(path.clone());
        self.sieve.touch(order);
        self.sieve.take(bytes);
        let inode = inode_of(&head.attr);
        entry.complete = Some(Complete { head, bytes, order });
        self.stats.evictions -= 1;
        if is_shared {
            self.inodes.entry(inode).or_default().push(path.clone());
        }
        self.wake(path);
        // If what the room was for has arrived already, the next arrival makes up for it.
        let Some(arriving) = self.entries.get_mut(&for_path).and_then(|e| e.arriving.as_mut()) else { return };
        arriving.unevictable.push(path.clone());
        if !self.make_room(&for_path, 0) {
            self.abandon(now, &for_path, EIO, true);
        }
    }

    /// Forgets complete content. Where the file has another name in the store, that one now accounts
    /// for the bytes.
    pub(super) fn drop_complete(&mut self, path: &Path) -> Option<Complete> {
        let entry = self.entries.get_mut(path)?;
        let complete = entry.complete.take()?;
        entry.content_at = Audience::default();
        self.sieve.remove(complete.order);
        for (rank, child) in &mut self.children {
            if let Some((transfer, true)) = child.stop(path) {
                let message = headwater_abi::wire::Message::Failed { transfer, errno: EIO };
                self.outputs.push_back(Output::Send { to: *rank, message });
            }
        }
        let inode = inode_of(&complete.head.attr);
        let heir = self.inodes.get_mut(&inode).and_then(|names| {
            names.retain(|name| name != path);
            names.first().cloned()
        });
        match heir.and_then(|name| self.entries.get_mut(&name)).and_then(|e| e.complete.as_mut()) {
            Some(heir) => heir.bytes += complete.bytes,
            None => {
                self.inodes.remove(&inode);
                self.sieve.give_back(complete.bytes);
            }
        }
        Some(complete)
    }

    /// Remembers complete content of a file that has several names, unless another name's content
    /// stands for the file already.
    pub(super) fn note_inode(&mut self, path: &Path) {
        let Some(complete) = self.entries.get(path).and_then(|e| e.complete.as_ref()) else { return };
        let attr = &complete.head.attr;
        if attr.nlink > 1 {
            self.inodes.entry(inode_of(attr)).or_insert_with(|| alloc::vec![path.clone()]);
        }
    }

    /// If the same file is complete under another name, links to it. True if the content that `aspect`
    /// asks for is then there.
    pub(super) fn adopt_hard_link(&mut self, path: &Path, aspect: Aspect) -> bool {
        let Some(entry) = self.entries.get(path).filter(|e| e.arriving.is_none()) else { return false };
        if entry.has_content(aspect) {
            return true;
        }
        let is_new = entry.complete.is_none();
        let target = self.linked_content(path, aspect);
        let target = target.or_else(|| self.linked_content(path, Aspect::Loadable).filter(|_| is_new));
        if let Some(target) = target {
            self.link(path, &target);
        }
        self.entries.get(path).is_some_and(|e| e.has_content(aspect))
    }

    /// Another name of the same file under which content that covers `aspect` is complete, in the same
    /// file of the store where `path` has content already.
    pub(super) fn linked_content(&self, path: &Path, aspect: Aspect) -> Option<Path> {
        let entry = self.entries.get(path).filter(|e| e.is_file())?;
        let attr = entry.attr().filter(|attr| attr.nlink > 1)?;
        let names = self.inodes.get(&inode_of(attr))?;
        if entry.complete.is_some() && !names.contains(path) {
            return None;
        }
        let is_source = |name: &&Path| {
            self.entries
                .get(name)
                .is_some_and(|e| e.has_content(aspect) && e.attr().is_some_and(|other| is_same_version(other, attr)))
        };
        names.iter().filter(|name| *name != path).find(is_source).cloned()
    }

    /// Makes `path` a further name of the complete content of `target`.
    pub(super) fn link(&mut self, path: &Path, target: &Path) {
        let Some(source) = self.entries.get(target).and_then(|e| e.complete.as_ref()) else { return };
        let mut head = (*source.head).clone();
        let Some(entry) = self.entries.get_mut(path) else { return };
        head.attr = entry.attr().copied().unwrap_or(head.attr);
        let (order, bytes) = match entry.complete.take() {
            Some(held) => (held.order, held.bytes),
            None => (self.sieve.insert(path.clone()), 0),
        };
        entry.complete = Some(Complete { head: Arc::new(head.clone()), bytes, order });
        entry.content_at = Audience::default();
        let names = self.inodes.entry(inode_of(&head.attr)).or_default();
        if !names.contains(path) {
            names.push(path.clone());
        }
        let aspect = aspect_of(&head);
        self.publish(Publication::HardLink { path: path.clone(), target: target.clone(), aspect, head });
        self.fresh.push_back(Thing::Content(path.clone()));
        self.wake(path);
    }
}
