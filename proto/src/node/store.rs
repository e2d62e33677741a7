//! The store's room: its limit, eviction, clearing at the user's request, and files that have several names.

use alloc::boxed::Box;
use alloc::vec::Vec;

use headwater_abi::wire::{Aspect, Message};
use headwater_abi::{Path, Want};

use super::requests::EIO;
use super::{Evicted, Node};
use crate::entry::{Inode, inode_of, is_same_version};
use crate::policy::{Recipients, Thing};
use crate::stored::StoredContent;
use crate::{Output, Peer, Publication};

/// Evictions that the store can still refuse.
const EVICTED_MAX: usize = 256;
/// Files that are evicted at once: few enough for the driver to have answered for all before the next.
const GIVEN_UP_AT_ONCE_MAX: usize = 64;

impl Node {
    /// Evicts until `bytes` more fit. False if they can't.
    pub(super) fn make_room(&mut self, path: &Path, bytes: u64) -> bool {
        let max = self.config.limits.store_bytes_max;
        while self.sieve.bytes().saturating_add(bytes) > max {
            if bytes > max {
                return false;
            }
            let arriving = self.entries.get(path).and_then(|e| e.arriving.as_ref());
            let unevictable = arriving.map_or_else(Vec::new, |arriving| arriving.unevictable.clone());
            let Some(victim) = self.victim(|candidate| candidate != path && !unevictable.contains(candidate)) else {
                return false;
            };
            self.evict(victim, path);
        }
        true
    }

    /// Returns the content to evict next, among what `may_go` accepts and is neither arriving nor being sent.
    fn victim(&mut self, may_go: impl Fn(&Path) -> bool) -> Option<Path> {
        let (entries, children) = (&self.entries, &self.children);
        self.sieve.victim(|candidate| {
            may_go(candidate)
                && entries.get(candidate).is_some_and(|e| !e.is_arriving())
                && !children.values().any(|child| child.needs(candidate))
        })
    }

    fn evict(&mut self, path: Path, for_path: &Path) {
        let attr = self.entries.get(&path).and_then(|e| e.attr());
        let names = attr.and_then(|attr| self.inodes.get(&inode_of(attr)));
        let is_shared = names.is_some_and(|names| names.contains(&path));
        let Some(stored) = self.drop_stored(&path) else { return };
        self.stats.evictions += 1;
        if self.evicted.len() == EVICTED_MAX {
            self.evicted.pop_front();
        }
        self.evicted.push_back(Evicted { path: path.clone(), stored, is_shared, for_path: for_path.clone() });
        self.outputs.push_back(Output::Evict { path });
    }

    /// Restores content that the store refused to evict because a process uses it, and evicts other content.
    pub(super) fn evict_refused(&mut self, path: &Path) {
        let Some(at) = self.evicted.iter().rposition(|e| e.path == *path) else { return };
        let Some(Evicted { stored, is_shared, for_path, .. }) = self.evicted.remove(at) else { return };
        let Some(entry) = self.entries.get_mut(path) else { return };
        if entry.stored.is_some() || entry.is_arriving() {
            return;
        }
        self.sieve.put_back(stored.order, path.clone());
        self.sieve.take(stored.bytes);
        entry.stored = Some(stored);
        self.stats.evictions -= 1;
        if let (true, Some(attr)) = (is_shared, entry.attr()) {
            self.inodes.entry(inode_of(attr)).or_default().push(path.clone());
        }
        self.wake(path);
        // If the content that needed the room has arrived already, the next arrival makes up for it.
        let Some(arriving) = self.entries.get_mut(&for_path).and_then(|e| e.arriving.as_mut()) else { return };
        arriving.unevictable.push(path.clone());
        if !self.make_room(&for_path, 0) {
            self.abandon(&for_path, None, EIO, true);
        }
    }

    /// Sets the store's limit, and evicts content beyond it. What is arriving, being sent or in use stays;
    /// the hand of the eviction order has then passed it, so the next attempt begins behind it.
    pub(super) fn set_room(&mut self, store_bytes_max: u64) {
        self.config.limits.store_bytes_max = store_bytes_max;
        for _ in 0..GIVEN_UP_AT_ONCE_MAX {
            if self.sieve.bytes() <= store_bytes_max {
                return;
            }
            let Some(victim) = self.victim(|_| true) else { return };
            self.evict(victim.clone(), &victim);
        }
    }

    /// Evicts content of `path`, and with `subtree` of everything below it: from `after` on, in the order of
    /// paths, at most as many files as the store can still refuse.
    pub(super) fn clear(&mut self, path: &Path, subtree: bool, after: Option<&Path>) {
        let root = self.map().walk(path, Want::empty()).path;
        let below = self.entries.descendants(&root).filter(|_| subtree);
        let targets = [&root].into_iter().chain(below).filter(|target| after.is_none_or(|after| *target > after));
        let stored = targets.filter(|target| self.entries.get(target).is_some_and(|entry| entry.stored.is_some()));
        let stored: Vec<Path> = stored.take(EVICTED_MAX).cloned().collect();
        let next = stored.last().filter(|_| stored.len() == EVICTED_MAX).cloned();
        let mut in_transit = 0;
        for target in stored {
            let Some(entry) = self.entries.get(&target) else { continue };
            if entry.is_arriving() || self.children.values().any(|child| child.needs(&target)) {
                in_transit += 1;
            } else {
                self.evict(target.clone(), &target);
            }
        }
        self.outputs.push_back(Output::Cleared { path: path.clone(), subtree, next, in_transit });
    }

    /// Drops the record of stored content. If the file has another name in the store, that is charged for the
    /// bytes, and the returned record is charged for none.
    pub(super) fn drop_stored(&mut self, path: &Path) -> Option<Box<StoredContent>> {
        self.note_downstream_sources(path);
        let entry = self.entries.get_mut(path)?;
        let mut stored = entry.stored.take()?;
        entry.content_at = Recipients::default();
        if let Some(blocks) = &mut entry.blocks {
            blocks.at.clear();
        }
        let inode = entry.attr().map(inode_of);
        self.sieve.remove(stored.order);
        for (&to, child) in self.children.iter_mut() {
            let announced = child.stop_all(path).into_iter().filter(|(_, is_announced)| *is_announced);
            let messages = announced.map(|(transfer, _)| Message::Failed { transfer, errno: EIO });
            self.outputs.extend(messages.map(|message| Output::Send { to: Peer::Child(to), message }));
        }
        match inode.and_then(|inode| self.next_name(inode, path)) {
            Some(next_name) => next_name.bytes += core::mem::take(&mut stored.bytes),
            None => self.sieve.release(stored.bytes),
        }
        Some(stored)
    }

    /// Returns the content of another name of the same stored file, after removing `path` from the names.
    fn next_name(&mut self, inode: Inode, path: &Path) -> Option<&mut StoredContent> {
        let names = self.inodes.get_mut(&inode)?;
        let at = names.iter().position(|name| name == path)?;
        names.remove(at);
        let Some(next_name) = names.first() else {
            self.inodes.remove(&inode);
            return None;
        };
        self.entries.get_mut(next_name)?.stored.as_deref_mut()
    }

    /// Notes complete content of a file with several names, unless content of another name represents the
    /// file and is not less.
    pub(super) fn note_inode(&mut self, path: &Path) {
        let Some(entry) = self.entries.get(path).filter(|e| e.has_content(Aspect::Loadable)) else { return };
        let Some(attr) = entry.attr().filter(|attr| attr.nlink > 1) else { return };
        let is_whole = |path: &Path| self.entries.get(path).is_some_and(|e| e.has_content(Aspect::Whole));
        let names = self.inodes.entry(inode_of(attr)).or_default();
        let is_more = matches!(&names[..], [other] if is_whole(path) && !is_whole(other));
        if names.is_empty() || is_more {
            *names = alloc::vec![path.clone()];
        }
    }

    /// Links to the same file's content under another name, if it is complete. True if the content that
    /// `aspect` needs is then stored.
    pub(super) fn adopt_hard_link(&mut self, path: &Path, aspect: Aspect) -> bool {
        let Some(entry) = self.entries.get(path).filter(|e| !e.is_arriving()) else { return false };
        if entry.has_content(aspect) {
            return true;
        }
        let is_new = entry.stored.is_none();
        let target = self.linked_content(path, aspect);
        let target = target
            .or_else(|| self.linked_content(path, Aspect::Loadable).filter(|_| is_new && aspect.block().is_none()));
        if let Some(target) = target {
            self.link(path, &target);
        }
        self.entries.get(path).is_some_and(|e| e.has_content(aspect))
    }

    /// Returns another name of the same file with complete content that covers `aspect`, in the stored file
    /// in which `path` has content already.
    pub(super) fn linked_content(&self, path: &Path, aspect: Aspect) -> Option<Path> {
        let entry = self.entries.get(path).filter(|e| e.is_file())?;
        let attr = entry.attr().filter(|attr| attr.nlink > 1)?;
        let names = self.inodes.get(&inode_of(attr))?;
        if entry.stored.is_some() && !names.contains(path) {
            return None;
        }
        // A partly stored file belongs to its own name.
        let aspect = if aspect.block().is_some() { Aspect::Whole } else { aspect };
        let is_source = |name: &&Path| {
            self.entries
                .get(name)
                .is_some_and(|e| e.has_content(aspect) && e.attr().is_some_and(|other| is_same_version(other, attr)))
        };
        names.iter().filter(|name| *name != path).find(is_source).cloned()
    }

    /// Makes `path` a further name of the complete content of `target`.
    pub(super) fn link(&mut self, path: &Path, target: &Path) {
        let Some(mut source) = self.entries.get(target).and_then(|e| e.stored.clone()) else { return };
        source.forget_blocks();
        if source.is_whole() {
            self.drop_pieces(path);
        }
        let Some(entry) = self.entries.get_mut(path) else { return };
        // Whether processes read it in the mount has been published for each name on its own.
        (source.order, source.bytes, source.is_in_mount) = match entry.stored.take() {
            Some(stored) => (stored.order, stored.bytes, stored.is_in_mount),
            None => (self.sieve.insert(path.clone()), 0, false),
        };
        if source.is_whole() {
            entry.blocks = None;
        }
        entry.stored = Some(source);
        entry.content_at = Recipients::default();
        let Some(head) = entry.stored_head(Aspect::Whole).or_else(|| entry.stored_head(Aspect::Loadable)) else {
            return;
        };
        let names = self.inodes.entry(inode_of(&head.attr)).or_default();
        if !names.contains(path) {
            names.push(path.clone());
        }
        let aspect = if head.whole { Aspect::Whole } else { Aspect::Loadable };
        self.publish(Publication::HardLink { path: path.clone(), target: target.clone(), aspect, head });
        self.fresh.push_back(Thing::Content(path.clone(), None));
        self.wake(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Input, Limits, Memory, Output, Policy, Rank};
    use alloc::format;
    use alloc::vec::Vec;
    use headwater_abi::attr::mode;
    use headwater_abi::{Attr, Path};
    use headwater_topology::{Branching, Forest, Shape};

    use crate::stored::whole_head;

    fn path(number: u64) -> Path {
        Path::new(format!("/sw/{number:03}").as_bytes()).unwrap()
    }

    /// Returns a node with so many files of ten bytes.
    fn node(files: u64) -> Node {
        let mut node = Node::new(
            Config {
                rank: Rank(0),
                forest: Forest::new(1, 0, Shape::Single(Branching::KAry(1))),
                session: 1,
                policy: Policy::Pull,
                limits: Limits::default(),
                scope: [(true, Path::new(b"/sw").unwrap())].into(),
            },
            1,
        );
        for number in 0..files {
            let attr = Attr { mode: mode::FILE, ino: number, nlink: 1, size: 10, ..Attr::default() };
            node.restore(&path(number), Memory::Fact(headwater_abi::wire::Fact::Attr(attr)));
            node.restore(&path(number), Memory::Content { head: whole_head(attr, 0), is_linked: false });
        }
        node
    }

    fn evicted(node: &mut Node) -> Vec<Path> {
        let outputs = core::iter::from_fn(|| node.poll_output());
        outputs.filter_map(|output| if let Output::Evict { path } = output { Some(path) } else { None }).collect()
    }

    #[test]
    fn a_smaller_limit_evicts_the_oldest_first() {
        let mut node = node(5);
        node.handle(0, Input::Room { store_bytes_max: 29 });
        assert_eq!(evicted(&mut node), [path(0), path(1), path(2)]);
        assert_eq!(node.stats().store_bytes, 20);
        node.handle(0, Input::Room { store_bytes_max: 1000 });
        assert_eq!(evicted(&mut node), []);
    }

    #[test]
    fn content_in_use_is_tried_once_a_round() {
        let mut node = node(4);
        node.handle(0, Input::Room { store_bytes_max: 20 });
        assert_eq!(evicted(&mut node), [path(0), path(1)]);
        for number in 0..2 {
            node.handle(0, Input::EvictRefused { path: path(number) });
            assert_eq!(evicted(&mut node), [], "a refusal alone gives nothing up");
        }
        assert_eq!(node.stats().store_bytes, 40);
        node.handle(0, Input::Room { store_bytes_max: 20 });
        assert_eq!(evicted(&mut node), [path(2), path(3)]);
        assert_eq!((node.stats().store_bytes, node.stats().evictions), (20, 2));
    }

    #[test]
    fn many_files_go_in_several_steps() {
        let mut node = node(200);
        let mut steps = 0;
        while node.stats().store_bytes > 0 {
            node.handle(0, Input::Room { store_bytes_max: 0 });
            assert!((1..=GIVEN_UP_AT_ONCE_MAX).contains(&evicted(&mut node).len()));
            steps += 1;
        }
        assert_eq!(steps, 4);
        node.handle(0, Input::Room { store_bytes_max: 0 });
        assert_eq!(evicted(&mut node), []);
    }
}
