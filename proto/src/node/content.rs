//! Content in transit: from the reader or a parent into the store, and on to children as it arrives.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use headwater_abi::wire::{Aspect, Digest, Fact, FileHead, Message, TransferId};
use headwater_abi::{Kind, Path};

use super::Node;
use super::requests::{EIO, aspects_of};
use crate::entry::{Arriving, Piece, Source, aspect_of, covers};
use crate::pending::{Key, Route, Waiter};
use crate::policy::{Recipients, Thing};
use crate::stored::{StoredContent, whole_head};
use crate::{Output, Peer, Publication, Rank};

/// Error numbers of opening or reading a file that mean that its name leads elsewhere by now, or that its
/// bytes have changed: `ENOENT`, `ENOTDIR`, `EISDIR`, `EINVAL`, `ELOOP`, `ESTALE`.
const CHANGED: [u16; 6] = [2, 20, 21, 22, 40, 116];

/// A file that a parent begins to send: the fields of its message.
pub(super) struct Offer {
    pub(super) transfer: TransferId,
    pub(super) path: Path,
    pub(super) aspect: Aspect,
    pub(super) head: FileHead,
    pub(super) position: u64,
}

/// Why a file is not received.
pub(super) enum Refusal {
    /// Its message is invalid.
    Breach(&'static str),
    /// It is not needed here.
    Unwanted,
    /// It is needed, but there is no room.
    Impossible,
}

impl Node {
    /// Handles the opening of a file by the reader.
    pub(super) fn file_opened(&mut self, path: Path, aspect: Aspect, head: FileHead) {
        let block = aspect.block();
        if self.reads.get(&(path.clone(), block)) != Some(&aspect) {
            return;
        }
        if let Some(arriving) = self.entries.get_mut(&path).and_then(|e| e.arriving_mut(block)) {
            if arriving.source != Source::Lost {
                return;
            }
            // Announced content that no rank sent is read here, if it is the same.
            if arriving.is_of(&head) {
                arriving.source = Source::Reader;
            } else {
                self.begin_again((path.clone(), block), None);
                self.changed(&path, false);
            }
            return;
        }
        if !is_content_head(&head, aspect) || !self.learn(&path, Fact::Attr(head.attr), false) {
            return self.stop_reading(&path, block);
        }
        self.note_read(&path);
        // While more of it arrives, the read goes on; what it needs is adopted at its end.
        let is_arriving = self.entries.get(&path).is_some_and(|entry| entry.is_arriving());
        if !is_arriving && self.linked_content(&path, aspect).is_some() {
            self.end_read(&path, block);
            self.adopt_hard_link(&path, aspect);
            return;
        }
        let is_stored = self.config.limits.stored.includes(&path, &head.attr);
        if block.is_none() && (!is_stored || self.leaves_to_processes(&path)) {
            return self.end_read(&path, None);
        }
        let aspect = if block.is_some() { aspect } else { aspect_of(&head) };
        if block.is_none() && self.is_large(&head) {
            self.end_read(&path, block);
            return self.large(&path, aspect, head);
        }
        if !self.begin(&path, aspect, head, Source::Reader) {
            self.stop_reading(&path, block);
        }
    }

    /// Handles progress of the reader.
    pub(super) fn file_read(&mut self, path: &Path, aspect: Aspect, position: u64) {
        if self.reads.get(&(path.clone(), aspect.block())) == Some(&aspect) {
            self.advance(path, aspect.block(), position);
        }
    }

    /// Handles a failure of the reader.
    pub(super) fn file_failed(&mut self, path: &Path, aspect: Aspect, errno: u16) {
        let block = aspect.block();
        if self.reads.get(&(path.clone(), block)) != Some(&aspect) {
            return;
        }
        if !self.abandon(path, block, errno, false) {
            self.reads.remove(&(path.clone(), block));
            self.fail_content(path, block);
        }
        if CHANGED.contains(&errno) {
            self.changed(path, false);
        }
    }

    fn stop_reading(&mut self, path: &Path, block: Option<u32>) {
        self.end_read(path, block);
        self.fail_content(path, block);
    }

    /// Ends a read by this node, if there is one, and discards what it has stored.
    pub(super) fn end_read(&mut self, path: &Path, block: Option<u32>) {
        if self.reads.remove(&(path.clone(), block)).is_some() {
            self.outputs.push_back(Output::Discard { path: path.clone(), block });
        }
    }

    /// Handles the beginning of a file that a parent sends.
    pub(super) fn file_offered(&mut self, from: Rank, offer: Offer) -> Result<(), Refusal> {
        let Offer { transfer, path, aspect, head, position } = offer;
        let (path, block) = (&path, aspect.block());
        if !is_content_head(&head, aspect) || (block.is_none() && aspect != aspect_of(&head)) {
            return Err(Refusal::Breach("a file's head is not that of such a file"));
        }
        if position != 0 || self.is_to_be_continued(path, aspect, &head) {
            return self.file_continued(from, Offer { transfer, path: path.clone(), aspect, head, position });
        }
        self.admit_content(path, aspect, &head)?;
        if !self.begin(path, aspect, head, Source::Parent(from, transfer)) {
            return Err(Refusal::Impossible);
        }
        Ok(())
    }

    /// Handles a file whose content a parent sends in one message.
    pub(super) fn content_announced(
        &mut self,
        from: Rank,
        (path, aspect): Key,
        head: FileHead,
        digest: Digest,
    ) -> Result<(), Refusal> {
        if !is_content_head(&head, aspect) || aspect != aspect_of(&head) {
            return Err(Refusal::Breach("a file's head is not that of such a file"));
        }
        self.admit_content(&path, aspect, &head)?;
        let Some((head, reserved)) = self.reserve(&path, head) else { return Err(Refusal::Impossible) };
        self.stop_finding(&path, None);
        self.receive_instead_of_reading(from, &path, None);
        let have = self.published(&path);
        if let Some(entry) = self.entries.get_mut(&path) {
            entry.content_at = Recipients::default();
        }
        self.take_in(&path, aspect, &head, reserved, Some(digest));
        let is_marked = self.is_content_marked(&path, None);
        self.publish(Publication::Arrived { path: path.clone(), aspect, head, have, is_marked });
        self.note_inode(&path);
        self.wake(&path);
        self.fresh.push_back(Thing::Content(path, None));
        Ok(())
    }

    /// Returns whether content from a parent is needed, and drops the content that it replaces.
    fn admit_content(&mut self, path: &Path, aspect: Aspect, head: &FileHead) -> Result<(), Refusal> {
        let block = aspect.block();
        if !self.scope.contains(path) || self.passthrough.covers(path) {
            return Err(Refusal::Unwanted);
        }
        if let Some(entry) = self.entries.get(path) {
            let arrives = entry.arriving.as_deref().into_iter().chain(entry.arriving(block));
            let mut arrives = arrives.into_iter().filter(|a| a.source != Source::Lost);
            let arrives_already = arrives.any(|a| a.aspect == Aspect::Whole || covers(a.aspect, aspect));
            if arrives_already || entry.has_content(aspect) {
                return Err(Refusal::Unwanted);
            }
        }
        if !self.learn(path, Fact::Attr(head.attr), false) {
            return Err(Refusal::Impossible);
        }
        if block.is_none() && self.leaves_to_processes(path) {
            return Err(Refusal::Unwanted);
        }
        // Content that begins again replaces all that came before.
        self.supersede(path, block);
        if self.adopt_hard_link(path, aspect) { Err(Refusal::Unwanted) } else { Ok(()) }
    }

    /// Returns whether a lost parent has announced this and sent nothing of it yet.
    fn is_to_be_continued(&self, path: &Path, aspect: Aspect, head: &FileHead) -> bool {
        let arriving = self.entries.get(path).and_then(|entry| entry.arriving(aspect.block()));
        arriving.is_some_and(|a| (a.source, a.position, a.aspect) == (Source::Lost, 0, aspect) && a.is_of(head))
    }

    /// Continues with content that another parent has begun.
    fn file_continued(&mut self, from: Rank, offer: Offer) -> Result<(), Refusal> {
        let Offer { transfer, path, aspect, head, position } = offer;
        let block = aspect.block();
        let Some(arriving) = self.entries.get_mut(&path).and_then(|e| e.arriving_mut(block)) else {
            return Err(Refusal::Unwanted);
        };
        let is_same = arriving.is_of(&head);
        if arriving.source != Source::Lost || arriving.position != position {
            return Err(Refusal::Unwanted);
        }
        if !is_same {
            // Processes see one version, never parts of two.
            self.changed(&path, false);
            return Err(Refusal::Impossible);
        }
        arriving.source = Source::Parent(from, transfer);
        let head = (*arriving.head).clone();
        self.receive_instead_of_reading(from, &path, block);
        let have = self.published(&path).filter(|_| block.is_none());
        if let Some(parent) = self.parents.get_mut(&from) {
            parent.incoming.insert(transfer, (path.clone(), block));
        }
        self.outputs.push_back(Output::Receive { from, transfer, path, block, head, position, have });
        Ok(())
    }

    /// Returns the head of what is stored of a file.
    fn published(&self, path: &Path) -> Option<FileHead> {
        let entry = self.entries.get(path)?;
        Some(entry.stored.as_ref()?.summary(*entry.attr()?))
    }

    /// Handles bytes of a file from a parent.
    pub(super) fn chunk(
        &mut self,
        from: Rank,
        transfer: TransferId,
        position: u64,
        bytes: u32,
    ) -> Result<(), &'static str> {
        let Some(parent) = self.parents.get(&from) else { return Err("a child sends content") };
        let Some((path, block)) = parent.incoming.get(&transfer).cloned() else {
            // What this node has cancelled may still be in transit.
            let is_old = parent.newest.is_some_and(|newest| transfer <= newest);
            return if is_old { Ok(()) } else { Err("a chunk of no file") };
        };
        let arriving = self.entries.get(&path).and_then(|e| e.arriving(block)).expect("what is sent arrives");
        if position != arriving.position {
            return Err("a chunk is out of order");
        }
        if arriving.head.locate(position).is_none_or(|(_, in_range)| u64::from(bytes) > in_range || bytes == 0) {
            return Err("a chunk reaches beyond its range");
        }
        self.advance(&path, block, position + u64::from(bytes));
        Ok(())
    }

    /// Handles the end of a transfer whose bytes match their digest.
    pub(super) fn end(&mut self, from: Rank, transfer: TransferId, digest: Digest) -> Result<(), &'static str> {
        let Some(parent) = self.parents.get(&from) else { return Err("a child sends content") };
        let Some((path, block)) = parent.incoming.get(&transfer).cloned() else {
            let is_old = parent.newest.is_some_and(|newest| transfer <= newest);
            return if is_old { Ok(()) } else { Err("the end of no file") };
        };
        let arriving = self.entries.get(&path).and_then(|e| e.arriving(block)).expect("what is sent arrives");
        if arriving.position != arriving.head.content_bytes() {
            return Err("a file ends before its end");
        }
        self.complete(&path, block, Some(digest));
        Ok(())
    }

    /// Reserves room for content, and serves the children that wait for it. False if there is no room.
    fn begin(&mut self, path: &Path, aspect: Aspect, head: FileHead, source: Source) -> bool {
        let Some((head, reserved)) = self.reserve(path, head) else { return false };
        let (head, block) = (Arc::new(head), aspect.block());
        self.stop_finding(path, block);
        let Some(entry) = self.entries.get_mut(path) else { return false };
        let unevictable = Vec::new();
        entry.set_arriving(Arriving { aspect, head: head.clone(), position: 0, reserved, source, unevictable });
        *entry.recipients(block) = Recipients::default();
        if let Source::Parent(from, transfer) = source {
            self.receive_instead_of_reading(from, path, block);
            if let Some(parent) = self.parents.get_mut(&from) {
                parent.incoming.insert(transfer, (path.clone(), block));
            }
            let have = self.published(path).filter(|_| block.is_none());
            let (path, head) = (path.clone(), (*head).clone());
            self.outputs.push_back(Output::Receive { from, transfer, path, block, head, position: 0, have });
        }
        for aspect in aspects_of(block) {
            let key = (path.clone(), aspect);
            if let Some(request) = self.pending.get_mut(&key) {
                self.woken.extend(core::mem::take(&mut request.children).into_iter().map(Waiter::Child));
                if !request.clients.is_empty() {
                    self.compare(&key);
                }
            }
        }
        self.fresh.push_back(Thing::Content(path.clone(), block));
        self.advance(path, block, 0);
        true
    }

    /// Reserves room for content. Returns its head, with the attributes that were seen first so that all
    /// nodes agree, and the bytes that it will take; `None` if there is no room.
    pub(super) fn reserve(&mut self, path: &Path, mut head: FileHead) -> Option<(FileHead, u64)> {
        let entry = self.entries.get(path)?;
        head.attr = *entry.attr().expect("a file has attributes");
        let reserved = entry.stored.as_ref().map_or_else(|| head.content_bytes(), |stored| stored.missing_bytes(&head));
        if !self.make_room(path, reserved) {
            return None;
        }
        self.sieve.take(reserved);
        Some((head, reserved))
    }

    /// Accepts content from a rank that came back after this node had queued a read of its own.
    fn receive_instead_of_reading(&mut self, from: Rank, path: &Path, block: Option<u32>) {
        self.end_read(path, block);
        for key in aspects_of(block).map(|aspect| (path.clone(), aspect)) {
            if matches!(self.pending.route(&key), Some(Route::Read | Route::Cache)) {
                self.pending.set_route(&key, Route::Parent(from));
            }
        }
    }

    /// Notes that the bytes before `position` are stored.
    fn advance(&mut self, path: &Path, block: Option<u32>, position: u64) {
        let Some(arriving) = self.entries.get_mut(path).and_then(|e| e.arriving_mut(block)) else { return };
        let total = arriving.head.content_bytes();
        if position < arriving.position || position > total {
            return;
        }
        let is_read = arriving.source == Source::Reader;
        if !is_read {
            self.direct.received(&arriving.head.attr, position - arriving.position);
        }
        arriving.position = position;
        for aspect in aspects_of(block) {
            self.pending.note_progress(self.now, &(path.clone(), aspect));
        }
        if position == total && is_read {
            return self.complete(path, block, None);
        }
        let piece = (path.clone(), block);
        self.children.wake(&piece);
    }

    /// Publishes content that is completely stored.
    fn complete(&mut self, path: &Path, block: Option<u32>, digest: Option<Digest>) {
        let Some(entry) = self.entries.get_mut(path) else { return };
        let Some(Arriving { aspect, head, reserved, source, .. }) = entry.take_arriving(block) else { return };
        let is_first = entry.stored.is_none();
        self.release_source(path, block, source);
        if is_first && let Some(target) = self.linked_content(path, aspect) {
            // It has arrived under two names at once.
            self.sieve.release(reserved);
            self.outputs.push_back(Output::Discard { path: path.clone(), block });
            self.link(path, &target);
            let piece = (path.clone(), block);
            return self.children.wake(&piece);
        }
        self.take_in(path, aspect, &head, reserved, digest);
        self.publish_content(path, aspect, (*head).clone());
    }

    /// Publishes content that was taken in, and wakes all that wait for it.
    pub(super) fn publish_content(&mut self, path: &Path, aspect: Aspect, head: FileHead) {
        let (path, block) = (path.clone(), aspect.block());
        // The cache keeps it, and may have it when it is evicted here.
        self.uncached.remove(&(path.clone(), aspect));
        let is_marked = self.is_content_marked(&path, block);
        match block {
            None => self.publish(Publication::Content { path: path.clone(), aspect, head, is_marked }),
            Some(block) => {
                self.publish(Publication::Block { path: path.clone(), block, head, is_marked });
                self.complete_blocks(&path);
            }
        }
        self.note_inode(&path);
        self.wake(&path);
        if block.is_some() {
            self.note_block(&path);
        }
        let piece = (path, block);
        self.children.wake(&piece);
    }

    /// Publishes content that is about to be stored in `bytes` bytes, and drops what else arrives of it.
    pub(super) fn take_in(&mut self, path: &Path, aspect: Aspect, head: &FileHead, bytes: u64, digest: Option<Digest>) {
        if aspect == Aspect::Whole {
            self.drop_pieces(path);
        }
        self.note_stored(path, aspect, head, bytes);
        if let (Some(digest), Some(stored)) = (digest, self.entries.get_mut(path).and_then(|e| e.stored.as_mut())) {
            stored.set_digest(aspect, digest);
        }
    }

    /// Notes that a source sends nothing more of this.
    fn release_source(&mut self, path: &Path, block: Option<u32>, source: Source) {
        match source {
            Source::Parent(from, transfer) => {
                if let Some(parent) = self.parents.get_mut(&from) {
                    parent.incoming.remove(&transfer);
                }
            }
            Source::Reader | Source::Lost => drop(self.reads.remove(&(path.clone(), block))),
        }
    }

    /// Publishes the file if all of its blocks are stored.
    fn complete_blocks(&mut self, path: &Path) {
        let Some(entry) = self.entries.get_mut(path) else { return };
        let Some(attr) = entry.attr().copied() else { return };
        let Some(stored) =
            entry.stored.as_mut().filter(|stored| !stored.is_whole() && stored.has_all_blocks(attr.size))
        else {
            return;
        };
        let head = whole_head(attr, stored.format);
        stored.add(Aspect::Whole, &head);
        self.drop_pieces(path);
        self.publish(Publication::Content { path: path.clone(), aspect: Aspect::Whole, head, is_marked: false });
    }

    /// Notes that content is stored and takes `bytes` bytes.
    fn note_stored(&mut self, path: &Path, aspect: Aspect, head: &FileHead, bytes: u64) {
        let Some(entry) = self.entries.get_mut(path) else { return };
        let sieve = &mut self.sieve;
        let stored = entry.stored.get_or_insert_with(|| Box::new(StoredContent::new(sieve.insert(path.clone()))));
        stored.add(aspect, head);
        stored.bytes += bytes;
        if stored.is_whole() && !entry.is_arriving() {
            entry.blocks = None;
        }
    }

    fn is_content_marked(&self, path: &Path, block: Option<u32>) -> bool {
        match block {
            None => self.is_marked(path),
            Some(number) => {
                let blocks = self.entries.get(path).and_then(|entry| entry.blocks.as_ref());
                blocks.is_some_and(|blocks| blocks.sequence.is_marked(number))
            }
        }
    }

    /// Drops what arrives of this, here and below. False if nothing arrives.
    pub(super) fn abandon(&mut self, path: &Path, block: Option<u32>, errno: u16, notifies_parent: bool) -> bool {
        let Some(arriving) = self.drop_arriving(path, block, notifies_parent) else { return false };
        self.fail_children((path.clone(), block), &arriving, errno);
        self.fail_content(path, block);
        true
    }

    /// Notifies children that arriving content was dropped.
    pub(super) fn fail_children(&mut self, piece: Piece, arriving: &Arriving, errno: u16) {
        for (&to, child) in self.children.iter_mut() {
            let Some((transfer, is_announced)) = child.stop_content(&piece, &arriving.head) else { continue };
            let to = Peer::Child(to);
            if is_announced {
                self.outputs.push_back(Output::Send { to, message: Message::Failed { transfer, errno } });
                continue;
            }
            // The child may have requested any aspect that this content covers.
            for aspect in aspects_of(piece.1).filter(|&aspect| covers(arriving.aspect, aspect)) {
                let message = Message::Unavailable { path: piece.0.clone(), aspect };
                self.outputs.push_back(Output::Send { to, message });
            }
        }
    }

    /// Replaces arriving content by content that covers more. Children that were being sent the former get
    /// the latter too.
    pub(super) fn supersede(&mut self, path: &Path, block: Option<u32>) {
        let Some(arriving) = self.drop_arriving(path, block, true) else { return };
        self.stop_below(&(path.clone(), block), &arriving);
    }

    /// Stops all transfers of a path that is passed through.
    pub(super) fn forget_content(&mut self, path: &Path) {
        self.drop_pieces(path);
        for child in self.children.values_mut() {
            child.stop_all(path);
        }
        if let Some(blocks) = self.entries.get_mut(path).and_then(|entry| entry.blocks.as_mut()) {
            blocks.download = None;
        }
    }

    /// Drops all arriving pieces of this path.
    pub(super) fn drop_pieces(&mut self, path: &Path) {
        let arriving = self.entries.get(path).map(|entry| entry.pieces_arriving()).unwrap_or_default();
        for &block in &arriving {
            self.drop_arriving(path, block, true);
        }
        for (path, block) in pieces_of(&self.reads, path) {
            self.end_read(&path, block);
        }
        for (path, block) in pieces_of(&self.finding, path) {
            self.stop_finding(&path, block);
        }
        // What was forwarded while it arrived may be stored by other means.
        arriving.iter().for_each(|&block| self.children.wake(&(path.clone(), block)));
    }

    pub(super) fn drop_arriving(&mut self, path: &Path, block: Option<u32>, notifies_parent: bool) -> Option<Arriving> {
        let arriving = self.entries.get_mut(path)?.take_arriving(block)?;
        self.sieve.release(arriving.reserved);
        self.outputs.push_back(Output::Discard { path: path.clone(), block });
        self.release_source(path, block, arriving.source);
        if let Source::Parent(from, transfer) = arriving.source
            && notifies_parent
            && self.is_up(from)
        {
            self.send(Peer::Parent(from), Message::Cancel { transfer });
        }
        Some(arriving)
    }

    /// Handles content that the store could not take.
    pub(super) fn store_failed(&mut self, path: &Path, block: Option<u32>) {
        if self.abandon(path, block, EIO, true) {
            return;
        }
        if self.reads.remove(&(path.clone(), block)).is_some() {
            self.fail_content(path, block);
        }
        match block {
            None => {
                if self.drop_stored(path).is_some() {
                    // Including what was there before: if that stays, its state is unknown.
                    self.evicted.retain(|evicted| evicted.path != *path);
                    self.outputs.push_back(Output::Evict { path: path.clone() });
                }
            }
            Some(number) => self.lose_block(path, number),
        }
    }
}

/// Returns the pieces of this path.
fn pieces_of(pieces: &BTreeMap<Piece, Aspect>, path: &Path) -> Vec<Piece> {
    if pieces.is_empty() {
        return Vec::new();
    }
    pieces.range((path.clone(), None)..=(path.clone(), Some(u32::MAX))).map(|(piece, _)| piece.clone()).collect()
}

pub(super) fn is_content_head(head: &FileHead, aspect: Aspect) -> bool {
    let is_right = match aspect {
        Aspect::Loadable => true,
        Aspect::Whole => head.whole,
        Aspect::Block(number) => head.block(number).as_ref() == Some(head),
        Aspect::Entry | Aspect::Listing | Aspect::Details => false,
    };
    is_right && head.is_valid() && head.attr.kind() == Kind::File
}
