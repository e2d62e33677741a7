//! Large content: downloaded block by block, each block through the tree whose turn it is, so that all links
//! of the overlay share the load. A node has a limited number of blocks pending and requests the next when
//! one has arrived; only the reader sees the order.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use headwater_abi::Path;
use headwater_abi::wire::{Aspect, Fact, FileHead, Message, block_range};

use super::Node;
use super::content::is_content_head;
use super::requests::aspects_of;
use crate::entry::{BlockDownload, Source, aspect_of, covers};
use crate::pending::{Route, Waiter};
use crate::policy::Thing;
use crate::{Peer, Publication, Rank};

impl Node {
    /// Returns whether large content travels block by block: so that all trees share the load, and so that a node can
    /// do without blocks that no process reads.
    pub(super) fn splits_large(&self) -> bool {
        self.config.forest.is_striped() || self.config.limits.mounted_file_bytes_min != u64::MAX
    }

    /// Returns whether such content travels block by block from here.
    pub(super) fn is_large(&self, head: &FileHead) -> bool {
        self.splits_large() && head.content_bytes() > self.config.limits.piece_bytes_max
    }

    /// Handles a parent's announcement that content is large.
    pub(super) fn large_announced(&mut self, path: Path, aspect: Aspect, head: FileHead) -> Result<(), &'static str> {
        if !is_content_head(&head, aspect) || aspect != aspect_of(&head) {
            return Err("a large file's head is not that of such a file");
        }
        self.large(&path, aspect, head);
        Ok(())
    }

    /// Announces large content to the children that wait for it, and downloads it for this node's waiters, or
    /// because it is pushed to all.
    pub(super) fn large(&mut self, path: &Path, aspect: Aspect, head: FileHead) {
        if !self.scope.contains(path) || self.passthrough.covers(path) {
            return;
        }
        if !self.learn(path, Fact::Attr(head.attr), false) {
            return self.fail_content(path, None);
        }
        let Some(entry) = self.entries.get_mut(path).filter(|entry| entry.is_file()) else { return };
        let mut head = head;
        head.attr = *entry.attr().expect("a file has attributes");
        let is_covered = entry.download().is_some_and(|download| covers(download.aspect, aspect));
        if entry.has_content(aspect) || is_covered {
            return self.wake(path);
        }
        let head = Arc::new(head);
        if entry.arriving(None).is_some_and(|arriving| arriving.source == Source::Lost) {
            // The rest is not requested any more.
            self.supersede(path, None);
        }
        let Some(entry) = self.entries.get_mut(path) else { return };
        entry.blocks.get_or_insert_default().large = Some((aspect, head.clone()));
        self.leave_to_processes(path);
        if self.is_for_mount(&head.attr) {
            self.leave_to_mount(path);
        }
        let is_answered = |&asked: &Aspect| covers(aspect, asked) && self.pending.contains(&(path.clone(), asked));
        let requested: Vec<Aspect> = aspects_of(None).filter(is_answered).collect();
        // What is pushed to all is not fetched if no process will read it, or only some of it.
        let mut is_wanted_here = requested.is_empty() && !self.is_direct(&head.attr) && !self.is_for_mount(&head.attr);
        for aspect_asked in requested {
            let key = (path.clone(), aspect_asked);
            let Some(request) = self.pending.get_mut(&key) else { continue };
            let (answered, others): (Vec<_>, Vec<_>) =
                core::mem::take(&mut request.children).into_iter().partition(|child| covers(aspect, child.aspect));
            let has_clients = !request.clients.is_empty();
            if has_clients {
                self.pending.set_route(&key, Route::Blocks);
                self.compare(&key);
                is_wanted_here = true;
            } else {
                self.pending.remove(&key);
            }
            for child in answered {
                let message = Message::Large { path: path.clone(), aspect, head: (*head).clone() };
                self.send(Peer::Child(child.rank), message);
                self.note_content_at(path, child.rank);
            }
            // Children that have requested more than this wait for this first, if it is wanted here too.
            self.woken.extend(others.into_iter().map(Waiter::Child));
        }
        if is_wanted_here {
            self.begin_download(path, aspect, head);
        }
    }

    /// Starts a download of content block by block.
    pub(super) fn begin_download(&mut self, path: &Path, aspect: Aspect, head: Arc<FileHead>) {
        let download = BlockDownload { aspect, head, next: 0, in_flight: BTreeSet::new() };
        if let Some(entry) = self.entries.get_mut(path) {
            entry.blocks.get_or_insert_default().download = Some(download);
        }
        self.downloads.push_back(path.clone());
        self.fresh.push_back(Thing::Content(path.clone(), None));
    }

    fn note_content_at(&mut self, path: &Path, rank: Rank) {
        if let Some(entry) = self.entries.get_mut(path) {
            entry.fact_at.insert(rank);
            entry.content_at.insert(rank);
        }
    }

    /// Notes that a block of a file has arrived or failed.
    pub(super) fn note_block(&mut self, path: &Path) {
        if self.entries.get(path).is_some_and(|entry| entry.download().is_some()) {
            self.downloads.push_back(path.clone());
        }
    }

    /// Requests the next blocks of a file that is being downloaded.
    pub(super) fn download_blocks(&mut self, path: &Path) {
        let is_left = self.leaves_to_processes(path);
        let Some(entry) = self.entries.get_mut(path) else { return };
        let count = entry.block_count();
        let Some(mut download) = entry.blocks.as_mut().and_then(|blocks| blocks.download.take()) else { return };
        if is_left {
            return;
        }
        let (aspect, head) = (download.aspect, download.head.clone());
        let entry = &*entry;
        download.in_flight.retain(|&number| !entry.has_content(Aspect::Block(number)));
        let is_coming = |node: &Node, number: u32| {
            let key = (path.clone(), Aspect::Block(number));
            node.pending.contains(&key) || node.entries.get(path).is_some_and(|e| e.arriving(Some(number)).is_some())
        };
        let mut has_failed = download.in_flight.iter().any(|&number| !is_coming(self, number));
        while !has_failed
            && download.in_flight.len() < self.config.limits.blocks_downloading_max
            && download.next < count
        {
            let number = download.next;
            download.next += 1;
            let is_here = self.entries.get(path).is_some_and(|entry| entry.has_content(Aspect::Block(number)));
            if is_here || !touches(&head, number) {
                continue;
            }
            if !is_coming(self, number) && !self.start(&(path.clone(), Aspect::Block(number)), None) {
                has_failed = true;
                break;
            }
            download.in_flight.insert(number);
        }
        for requested in aspects_of(None) {
            self.pending.note_progress(self.now, &(path.clone(), requested));
        }
        if has_failed {
            return self.fail_content(path, None);
        }
        if download.in_flight.is_empty() {
            return self.finish_download(path, aspect, &head);
        }
        if let Some(entry) = self.entries.get_mut(path) {
            entry.blocks.get_or_insert_default().download = Some(download);
        }
    }

    /// Publishes content whose blocks are all stored.
    fn finish_download(&mut self, path: &Path, aspect: Aspect, head: &FileHead) {
        let Some(entry) = self.entries.get_mut(path) else { return };
        if !entry.has_content(aspect) {
            let Some(stored) = &mut entry.stored else { return };
            stored.add(aspect, head);
            let is_marked = false;
            self.publish(Publication::Content { path: path.clone(), aspect, head: head.clone(), is_marked });
        }
        self.note_inode(path);
        self.wake(path);
    }
}

/// Returns whether a block has bytes that a head describes.
fn touches(head: &FileHead, number: u32) -> bool {
    block_range(head.attr.size, number).is_some_and(|(offset, bytes)| {
        head.ranges.iter().any(|&(start, length)| start < offset + bytes && offset < start + length)
    })
}
