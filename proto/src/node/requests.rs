//! Requests of this node: to the reader at the root, to the parent elsewhere.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use headwater_abi::wire::{Aspect, Message};
use headwater_abi::{Attr, Path};

use super::Node;
use crate::entries::Lookup;
use crate::entry::{Entry, Source, covers};
use crate::pending::{Key, Route, Waiter};
use crate::state::parent::Link;
use crate::topology::{TreeId, Up};
use crate::{Output, Peer, Rank, Reply, Time};

/// How long a failed request is not repeated, in milliseconds.
const RETRY_MS_MIN: Time = 1000;
/// Failed requests that are remembered.
const FAILED_MAX: usize = 4096;
/// Files to be read whose requests may have ended.
const READS_UNREQUESTED_MAX: usize = 64;
/// `EIO`: the error of content that no rank can supply any more.
pub(super) const EIO: u16 = 5;

impl Node {
    /// Lets `waiter` wait until `aspect` of `path` is known, and requests it unless that is pending.
    pub(super) fn wait_for(&mut self, path: Path, aspect: Aspect, waiter: Waiter) {
        if is_content(aspect) && self.adopt_hard_link(&path, aspect) {
            return self.woken.push_back(waiter);
        }
        let key = self.request_key(path, aspect);
        let tree = match &waiter {
            Waiter::Child(want) if key.1 == aspect => Some(want.tree),
            _ => None,
        };
        if !self.pending.contains(&key) && !self.start(&key, tree) {
            return self.refuse(waiter);
        }
        self.escalate(&key, tree);
        if let Waiter::Client(id) = &waiter
            && let Some(client) = self.clients.get_mut(id)
        {
            client.waits_for = Some(key.clone());
        }
        self.pending.join(&key, waiter);
    }

    /// Sends a request that waits in one tree in another, if the new waiter comes from there: otherwise the two
    /// could wait for each other. A request for a block moves to the file's home; in groups, where trees are
    /// equals, it moves to trees with smaller numbers alone. So it is sent once in each tree at most, and all
    /// that wait for each other do so in one tree.
    fn escalate(&mut self, key: &Key, tree: Option<TreeId>) {
        let home = self.home(&key.0, key.1, tree);
        let is_striped = self.config.forest.is_striped();
        let is_below = |requested: TreeId| if is_striped { requested != home } else { requested > home };
        if tree != Some(home) || !self.pending.tree(key).is_some_and(is_below) {
            return;
        }
        let may_wait = match self.pending.route(key) {
            // A downstream source sends only what it has stored, so it answers at once.
            Some(Route::Parent(rank)) => !self.is_downstream_source_of(&key.0, rank),
            route => route == Some(Route::Waiting),
        };
        if may_wait
            && let Some(route) = self.dispatch(key, home)
            && self.pending.set_route(key, route)
            && let Some(request) = self.pending.get_mut(key)
        {
            request.tree = home;
        }
    }

    /// Returns the request to wait for, on the way to `aspect` of `path`. At most one request for content in
    /// one piece of a path is pending, and none for blocks beside it. If a directory's listing hints that the
    /// file is complete under another name, its attributes come first.
    fn request_key(&self, path: Path, aspect: Aspect) -> Key {
        if !is_content(aspect) {
            return (path, aspect);
        }
        for requested in [Aspect::Loadable, Aspect::Whole] {
            let key = (path.clone(), requested);
            let is_by_block = self.config.forest.is_striped() || self.pending.route(&key) == Some(Route::Blocks);
            if self.pending.contains(&key) && !(aspect.block().is_some() && is_by_block) {
                return key;
            }
        }
        if let Some(arriving) = self.entries.get(&path).and_then(|e| e.arriving.as_ref()) {
            return (path, arriving.aspect);
        }
        // To read a block, the reader needs the file's size; a cache needs all attributes.
        let needs_attributes =
            self.config.limits.has_cache || (aspect.block().is_some() && self.is_reader_of(&path, aspect));
        if (needs_attributes && self.entries.get(&path).is_none()) || self.is_linked_by_hint(&path) {
            return (path, Aspect::Entry);
        }
        (path, aspect)
    }

    /// Starts a request. False if that is impossible now.
    pub(super) fn start(&mut self, key: &Key, tree: Option<TreeId>) -> bool {
        if self.pending.len() >= self.config.limits.pending_max {
            return false;
        }
        let (path, aspect) = key;
        let timeout_ms = self.config.limits.request_timeout_ms_max;
        let tree = tree.unwrap_or_else(|| self.tree_of(path, *aspect));
        let entry = self.entries.get(path);
        if is_content(*aspect)
            && let Some(arriving) = entry.and_then(|e| e.arriving(aspect.block()))
        {
            let route = match arriving.source {
                Source::Reader => Route::Read,
                Source::Parent(rank, _) => Route::Parent(rank),
                Source::Lost => match self.dispatch(key, tree) {
                    Some(route) => route,
                    None => return false,
                },
            };
            self.pending.insert(self.now, key.clone(), route, tree, timeout_ms);
            return true;
        }
        if matches!(aspect, Aspect::Loadable | Aspect::Whole)
            && entry.and_then(|entry| entry.download()).is_some_and(|g| covers(g.aspect, *aspect))
        {
            self.pending.insert(self.now, key.clone(), Route::Blocks, tree, timeout_ms);
            return true;
        }
        let room = self.config.limits.entries_max.saturating_sub(self.entries.len() + self.pending.len());
        let failed_lately =
            self.failed.get(&failure(key)).is_some_and(|&at| self.now.saturating_sub(at) < RETRY_MS_MIN);
        if failed_lately || (entry.is_none() && room == 0) {
            return false;
        }
        if matches!(aspect, Aspect::Loadable | Aspect::Whole)
            && let Some((large, head)) = entry.and_then(|entry| entry.large_for(*aspect))
        {
            self.pending.insert(self.now, key.clone(), Route::Blocks, tree, timeout_ms);
            self.begin_download(path, large, head);
            return true;
        }
        let is_detailed = *aspect == Aspect::Entry && self.is_detailed(path);
        let route = if is_detailed { Some(Route::Details) } else { self.dispatch(key, tree) };
        let Some(route) = route else { return false };
        self.pending.insert(self.now, key.clone(), route, tree, timeout_ms);
        true
    }

    /// Sends a request and returns its route; `None` if there is none now.
    pub(super) fn dispatch(&mut self, key: &Key, tree: TreeId) -> Option<Route> {
        if let Some(route) = self.find_cached(key) {
            return Some(route);
        }
        let (rank, tree) = match self.route(key, tree) {
            (Up::Unreachable, _) => return None,
            (Up::Reader, _) => {
                if let Some(route) = self.request_downstream(key) {
                    return Some(route);
                }
                self.read(key);
                return Some(Route::Read);
            }
            (Up::To(rank), tree) => (rank, tree),
        };
        match self.parents.get(&rank)?.link {
            Link::Up => {
                self.send_want(rank, tree, key);
                Some(Route::Parent(rank))
            }
            Link::Starting(_) | Link::Away(_) => Some(Route::Waiting),
            Link::Dead | Link::Banned(_) => None,
        }
    }

    /// Sends a request to a parent, for what has not arrived yet.
    pub(super) fn send_want(&mut self, rank: Rank, tree: TreeId, (path, aspect): &Key) {
        let arriving = self.entries.get(path).filter(|_| is_content(*aspect)).and_then(|e| e.arriving(aspect.block()));
        let position = arriving.filter(|arriving| arriving.aspect == *aspect).map_or(0, |arriving| arriving.position);
        let message = Message::Want { tree: tree.0, path: path.clone(), aspect: *aspect, position, only_stored: false };
        self.send(Peer::Parent(rank), message);
    }

    fn read(&mut self, (path, aspect): &Key) {
        let path = path.clone();
        match aspect {
            Aspect::Entry => self.outputs.push_back(Output::ReadEntry { path }),
            Aspect::Listing => self.outputs.push_back(Output::ReadListing { path }),
            Aspect::Loadable | Aspect::Whole | Aspect::Block(_) => {
                if self.reads_waiting.len() >= 2 * self.pending.len() + READS_UNREQUESTED_MAX {
                    // Removes duplicates, and files whose request has ended.
                    let mut seen = BTreeSet::new();
                    let is_requested = |key: &Key| self.pending.route(key) == Some(Route::Read);
                    self.reads_waiting.retain(|key| is_requested(key) && seen.insert(key.clone()));
                }
                self.reads_waiting.push_back((path, *aspect));
            }
            Aspect::Details => self.start_batches(&path),
        }
    }

    /// Starts the next waiting read of a file, if the limit allows. False if there is none.
    pub(super) fn start_read(&mut self) -> bool {
        if self.reads.len() >= self.config.limits.reads_in_flight_max {
            return false;
        }
        let Some(key) = self.reads_waiting.pop_front() else { return false };
        let (path, aspect) = &key;
        let piece = (path.clone(), aspect.block());
        let Some(tree) = self.pending.tree(&key).filter(|_| self.pending.route(&key) == Some(Route::Read)) else {
            return true;
        };
        if self.reads.contains_key(&piece) || self.adopt_hard_link(path, *aspect) {
            return true;
        }
        if self.route(&key, tree).0 != Up::Reader {
            // While it waited, a rank has come back that can be asked.
            self.pending.set_route(&key, Route::Waiting);
            self.redispatch();
            return true;
        }
        let is_unknown = self.entries.get(path).is_none();
        let is_unsized = is_unknown && piece.1.is_some();
        let is_absent = is_unknown && self.listed_absent_in(path).is_some();
        if self.is_linked_by_hint(path) || is_unsized || is_absent {
            // While this read waited, the file was completed under another name, or turned out to be absent,
            // or this node has become its reader only now: start over.
            self.release(&key);
            return true;
        }
        let is_empty = self.entries.get(path).is_some_and(|entry| entry.stored.is_none());
        let has_twin = |aspect| self.linked_content(path, aspect).is_some();
        if has_twin(*aspect) || (is_empty && piece.1.is_none() && has_twin(Aspect::Loadable)) {
            // The file was completed under another name while other ranks were to send it.
            let arriving = self.entries.get(path).map(|entry| entry.pieces_arriving()).unwrap_or_default();
            for block in arriving {
                self.drop_unverified((path.clone(), block));
            }
            if self.adopt_hard_link(path, *aspect) {
                return true;
            }
        }
        let arriving = self.entries.get(path).and_then(|entry| entry.arriving(piece.1));
        if arriving.is_some_and(|arriving| arriving.position > 0 || arriving.aspect != *aspect) {
            // Bytes from other ranks can't be verified any more.
            self.drop_unverified(piece.clone());
        }
        self.reads.insert(piece, *aspect);
        let have = self.entries.get(path).and_then(|entry| entry.have(*aspect));
        // A file's first block decides for the file.
        let execute = matches!(aspect, Aspect::Whole | Aspect::Block(0));
        let is_one_piece = aspect.block().is_some() || !self.splits_large();
        let content_bytes_max = if is_one_piece { u64::MAX } else { self.config.limits.piece_bytes_max };
        let file_bytes_max = if aspect.block().is_some() { u64::MAX } else { self.config.limits.stored.file_bytes_max };
        let path = path.clone();
        let aspect = *aspect;
        self.outputs.push_back(Output::ReadFile { path, aspect, have, execute, content_bytes_max, file_bytes_max });
        true
    }

    /// Returns whether a directory's listing hints that this unknown file is complete under another name.
    fn is_linked_by_hint(&self, path: &Path) -> bool {
        self.entries.get(path).is_none()
            && self.is_reader_of(path, Aspect::Whole)
            && self.entries.inode_hint(path).is_some_and(|inode| self.inodes.contains_key(&inode))
    }

    /// Returns whether processes read this content from the source file, because that is not stored.
    pub(super) fn is_read_directly(&self, entry: &Entry, aspect: Aspect) -> bool {
        let is_left = |attr: &Attr| !self.config.limits.stored.includes(&entry.path, attr);
        matches!(aspect, Aspect::Loadable | Aspect::Whole) && entry.is_file() && entry.attr().is_some_and(is_left)
    }

    /// Wakes the waiters of all requests about `path` that can be answered now.
    pub(super) fn wake(&mut self, path: &Path) {
        let Some(entry) = self.entries.get(path) else { return };
        let is_answered = |aspect| entry.knows(aspect) || self.is_read_directly(entry, aspect);
        let known: Vec<Key> = self.pending.keys_of(path).filter(|(_, aspect)| is_answered(*aspect)).cloned().collect();
        for key in known {
            self.release(&key);
        }
    }

    /// Ends a request, and wakes its waiters whatever the result.
    pub(super) fn release(&mut self, key: &Key) {
        let Some(request) = self.pending.remove(key) else { return };
        self.woken.extend(request.waiters());
        if key.1 == Aspect::Details {
            self.no_details(&key.0);
        }
    }

    /// Ends a request that can't be answered now.
    pub(super) fn fail(&mut self, key: &Key) {
        let request = self.pending.remove(key);
        if is_content(key.1) {
            self.drop_orphan(key);
        }
        let Some(request) = request else { return };
        if let Aspect::Block(_) = key.1 {
            self.note_block(&key.0);
        }
        for waiter in request.waiters() {
            match waiter {
                // It has the names, and examines them one by one.
                Waiter::Client(id) if key.1 == Aspect::Details => self.finish(id, Reply::Done),
                waiter => self.refuse(waiter),
            }
        }
        if key.1 == Aspect::Details {
            self.no_details(&key.0);
        }
    }

    /// Drops arriving content that has lost its sender, if no pending request is for the rest.
    pub(super) fn drop_orphan(&mut self, (path, aspect): &Key) {
        let block = aspect.block();
        let is_orphan =
            self.entries.get(path).and_then(|e| e.arriving(block)).is_some_and(|a| a.source == Source::Lost);
        let owes_answer = |aspect| self.pending.contains(&(path.clone(), aspect));
        if is_orphan
            && !aspects_of(block).any(owes_answer)
            && let Some(arriving) = self.drop_arriving(path, block, false)
        {
            self.fail_children((path.clone(), block), &arriving, EIO);
        }
    }

    /// Returns whether content of this path is requested in one piece.
    pub(super) fn is_content_requested(&self, path: &Path) -> bool {
        [Aspect::Loadable, Aspect::Whole].into_iter().any(|aspect| self.pending.contains(&(path.clone(), aspect)))
    }

    /// Fails a request as [`Node::fail`], and delays its repetition.
    pub(super) fn fail_for_now(&mut self, key: &Key) {
        if self.failed.len() >= FAILED_MAX {
            self.failed.retain(|_, at| self.now.saturating_sub(*at) < RETRY_MS_MIN);
        }
        if self.failed.len() < FAILED_MAX {
            self.failed.insert(failure(key), self.now);
        }
        self.fail(key);
    }

    /// Fails the requests for this path's content, or for this block.
    pub(super) fn fail_content(&mut self, path: &Path, block: Option<u32>) {
        if block.is_none()
            && let Some(blocks) = self.entries.get_mut(path).and_then(|entry| entry.blocks.as_mut())
        {
            blocks.download = None;
        }
        for aspect in aspects_of(block) {
            self.fail_for_now(&(path.clone(), aspect));
        }
        if block.is_some() {
            // A download that needs the block need not have requested it: it may have been pushed.
            self.note_block(path);
        }
    }

    /// Ends a request that has made no progress for too long.
    pub(super) fn give_up(&mut self, key: &Key) {
        let (path, aspect) = key;
        let block = aspect.block();
        if is_content(*aspect) && !self.abandon(path, block, EIO, true) {
            self.end_read(path, block);
        }
        self.fail_for_now(key);
    }

    fn refuse(&mut self, waiter: Waiter) {
        match waiter {
            Waiter::Client(id) => self.finish(id, Reply::Fallback),
            Waiter::Child(want) => {
                let message = Message::Unavailable { path: want.path, aspect: want.aspect };
                self.send(Peer::Child(want.rank), message);
            }
        }
    }

    /// Returns the directory, if one is known, whose listing shows that there is no such path.
    pub(super) fn listed_absent_in(&self, path: &Path) -> Option<Path> {
        let mut at = path.clone();
        loop {
            let parent = at.parent()?;
            match self.entries.lookup(&at) {
                Lookup::Missing => return Some(parent),
                Lookup::Unknown => at = parent,
                Lookup::Unlistable | Lookup::Found(_) => return None,
            }
        }
    }
}

/// Returns the request under which a failure is remembered.
fn failure((path, aspect): &Key) -> Key {
    (path.clone(), if *aspect == Aspect::Loadable { Aspect::Whole } else { *aspect })
}

pub(super) fn is_content(aspect: Aspect) -> bool {
    matches!(aspect, Aspect::Loadable | Aspect::Whole | Aspect::Block(_))
}

/// Returns the aspects in which a file in one piece, or a block of it, can be requested.
pub(super) fn aspects_of(block: Option<u32>) -> impl Iterator<Item = Aspect> {
    let whole = [Aspect::Loadable, Aspect::Whole].into_iter().filter(move |_| block.is_none());
    whole.chain(block.map(Aspect::Block))
}
