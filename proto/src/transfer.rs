//! Transfers to one child: a cursor over the store for each file, a bounded number of chunks in flight, and
//! turns between files chunk by chunk. A slow child costs its cursors and delays no other.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;
use core::ops::{Deref, DerefMut};

use headwater_abi::Path;
use headwater_abi::wire::{Aspect, CHUNK_BYTES_MAX, FileHead, Message, TransferId};

use crate::entries::Entries;
use crate::entry::{Piece, covers};
use crate::state::parent::Joined;
use crate::{Output, Peer, Rank};

#[derive(Debug)]
struct Cursor {
    path: Path,
    aspect: Aspect,
    head: Arc<FileHead>,
    position: u64,
    is_announced: bool,
    /// Whether it is in the queue; if not, it waits for more to arrive here.
    is_ready: bool,
}

/// All children; whether more may be sent to one of them since the last check, and whether a transfer may
/// wait for more to arrive here.
#[derive(Debug, Default)]
pub(crate) struct Children {
    by_rank: BTreeMap<Rank, Child>,
    is_stirred: bool,
    may_wait: bool,
}

impl Deref for Children {
    type Target = BTreeMap<Rank, Child>;

    fn deref(&self) -> &BTreeMap<Rank, Child> {
        &self.by_rank
    }
}

impl DerefMut for Children {
    fn deref_mut(&mut self) -> &mut BTreeMap<Rank, Child> {
        self.is_stirred = true;
        &mut self.by_rank
    }
}

impl Children {
    /// Notes that more of this piece has arrived here.
    pub(crate) fn wake(&mut self, piece: &Piece) {
        if mem::take(&mut self.may_wait) {
            for child in self.by_rank.values_mut() {
                self.is_stirred |= child.wake(piece);
                self.may_wait |= child.ready.len() < child.cursors.len();
            }
        }
    }

    /// Puts out as many chunks as the limit allows. Returns the content whose digest is to be computed.
    pub(crate) fn pump(
        &mut self,
        entries: &Entries,
        in_flight_max: usize,
        next_transfer: &mut u64,
        out: &mut VecDeque<Output>,
    ) -> Vec<(Path, Aspect, Arc<FileHead>)> {
        let mut undigested = Vec::new();
        if mem::take(&mut self.is_stirred) {
            for (&rank, child) in &mut self.by_rank {
                child.pump(rank, entries, in_flight_max, next_transfer, out);
                self.may_wait |= child.ready.len() < child.cursors.len();
                undigested.append(&mut child.undigested);
            }
        }
        undigested
    }
}

#[derive(Debug, Default)]
pub(crate) struct Child {
    /// The trees in which this node is its parent.
    pub(crate) joined: Joined,
    cursors: BTreeMap<TransferId, Cursor>,
    by_piece: BTreeMap<Piece, TransferId>,
    ready: VecDeque<TransferId>,
    /// The last announced number; numbers ascend.
    newest: Option<TransferId>,
    /// Content that was sent to its end and has no digest yet.
    undigested: Vec<(Path, Aspect, Arc<FileHead>)>,
    /// The files of the chunks that the network has not taken yet.
    in_flight: VecDeque<Path>,
}

impl Child {
    pub(crate) fn new(joined: Joined) -> Child {
        Child { joined, ..Child::default() }
    }

    /// Returns whether content that covers `aspect` is being sent.
    pub(crate) fn receives(&self, path: &Path, aspect: Aspect) -> bool {
        self.cursor(path, aspect.block()).is_some_and(|c| covers(c.aspect, aspect))
    }

    /// Returns whether a transfer needs the stored copy of this path.
    pub(crate) fn needs(&self, path: &Path) -> bool {
        self.pieces(path).next().is_some() || self.in_flight.contains(path)
    }

    pub(crate) fn transfers(&self) -> usize {
        self.cursors.len()
    }

    /// Starts to send content from `position`, in place of content that covers less of the same file.
    pub(crate) fn start(&mut self, id: TransferId, path: &Path, aspect: Aspect, head: Arc<FileHead>, position: u64) {
        let piece = (path.clone(), aspect.block());
        self.stop(&piece);
        let cursor = Cursor { path: path.clone(), aspect, head, position, is_announced: false, is_ready: true };
        self.cursors.insert(id, cursor);
        self.by_piece.insert(piece, id);
        self.ready.push_back(id);
    }

    /// Stops a transfer. Returns its number, and whether it was announced.
    pub(crate) fn stop(&mut self, piece: &Piece) -> Option<(TransferId, bool)> {
        let id = self.by_piece.remove(piece)?;
        let cursor = self.cursors.remove(&id)?;
        self.ready.retain(|&ready| ready != id);
        Some((id, cursor.is_announced))
    }

    /// Stops all transfers of this file, blocks included.
    pub(crate) fn stop_all(&mut self, path: &Path) -> Vec<(TransferId, bool)> {
        let pieces: Vec<Piece> = self.pieces(path).cloned().collect();
        pieces.iter().filter_map(|piece| self.stop(piece)).collect()
    }

    /// Stops a transfer, if it is of the content with this very head.
    pub(crate) fn stop_content(&mut self, piece: &Piece, head: &Arc<FileHead>) -> Option<(TransferId, bool)> {
        self.cursor(&piece.0, piece.1).filter(|c| Arc::ptr_eq(&c.head, head))?;
        self.stop(piece)
    }

    /// Stops a transfer that the child has cancelled.
    pub(crate) fn cancel(&mut self, id: TransferId) {
        if let Some(piece) = self.cursors.get(&id).map(Cursor::piece) {
            self.stop(&piece);
        }
    }

    /// Continues a transfer that waited for more to arrive here. False if there is none.
    fn wake(&mut self, piece: &Piece) -> bool {
        let cursor = self.by_piece.get(piece).and_then(|id| Some((*id, self.cursors.get_mut(id)?)));
        let Some((id, cursor)) = cursor.filter(|(_, cursor)| !cursor.is_ready) else { return false };
        cursor.is_ready = true;
        self.ready.push_back(id);
        true
    }

    pub(crate) fn chunk_sent(&mut self) {
        self.in_flight.pop_front();
    }

    /// Puts out as many chunks as the limit allows. Content that was sent to its end waits for its digest.
    fn pump(
        &mut self,
        to: Rank,
        entries: &Entries,
        in_flight_max: usize,
        next_transfer: &mut u64,
        out: &mut VecDeque<Output>,
    ) {
        while self.in_flight.len() < in_flight_max {
            let Some(mut id) = self.ready.pop_front() else { return };
            let Some(cursor) = self.cursors.get_mut(&id) else { continue };
            let entry = entries.get(&cursor.path);
            let available = entry.and_then(|e| e.available(cursor.aspect, &cursor.head));
            let available = available.expect("content that is being sent stays in the store");
            let is_here = entry.is_some_and(|e| e.has_content(cursor.aspect));
            let digest = entry.and_then(|e| e.digest(cursor.aspect)).filter(|_| is_here);
            if cursor.is_delayed(available, is_here && digest.is_none()) {
                cursor.is_ready = false;
                if is_here {
                    self.undigested.push((cursor.path.clone(), cursor.aspect, cursor.head.clone()));
                }
                continue;
            }
            if let Some(digest) = digest
                && cursor.is_single_message()
            {
                let piece = cursor.piece();
                let Some(Cursor { path, aspect, head, .. }) = self.cursors.remove(&id) else { continue };
                self.by_piece.remove(&piece);
                self.in_flight.push_back(path.clone());
                out.push_back(Output::SendContent { to, path, aspect, head, digest });
                continue;
            }
            if !cursor.is_announced {
                id = self.number(id, next_transfer);
            }
            let Some(cursor) = self.cursors.get_mut(&id) else { continue };
            if !mem::replace(&mut cursor.is_announced, true) {
                out.push_back(Output::Send { to: Peer::Child(to), message: cursor.announcement(id) });
            }
            if let Some(chunk) = cursor.next_chunk(to, id, available) {
                out.push_back(chunk);
                self.in_flight.push_back(cursor.path.clone());
            }
            if cursor.position == cursor.head.content_bytes() {
                cursor.is_ready = false;
                match digest {
                    Some(digest) => {
                        out.push_back(Output::Send {
                            to: Peer::Child(to),
                            message: Message::End { transfer: id, digest },
                        });
                        self.by_piece.remove(&cursor.piece());
                        self.cursors.remove(&id);
                    }
                    None if is_here => self.undigested.push((cursor.path.clone(), cursor.aspect, cursor.head.clone())),
                    None => {}
                }
            } else if cursor.position < available {
                self.ready.push_back(id);
            } else {
                cursor.is_ready = false;
            }
        }
    }

    /// Returns the number under which a piece is announced: its own, or a new one if a later number was
    /// announced before.
    fn number(&mut self, id: TransferId, next_transfer: &mut u64) -> TransferId {
        let mut number = id;
        if self.newest.is_some_and(|newest| newest >= id)
            && let Some(cursor) = self.cursors.remove(&id)
        {
            number = new_transfer(next_transfer);
            self.by_piece.insert(cursor.piece(), number);
            self.cursors.insert(number, cursor);
        }
        self.newest = Some(number);
        number
    }

    fn cursor(&self, path: &Path, block: Option<u32>) -> Option<&Cursor> {
        self.cursors.get(self.by_piece.get(&(path.clone(), block))?)
    }

    fn pieces(&self, path: &Path) -> impl Iterator<Item = &Piece> {
        self.by_piece.range((path.clone(), None)..=(path.clone(), Some(u32::MAX))).map(|(piece, _)| piece)
    }
}

/// Returns an unused number.
pub(crate) fn new_transfer(next_transfer: &mut u64) -> TransferId {
    let id = TransferId(*next_transfer);
    *next_transfer += 1;
    id
}

impl Cursor {
    fn piece(&self) -> Piece {
        (self.path.clone(), self.aspect.block())
    }

    /// Returns whether content of one chunk waits: an announcement ahead of it would gain nothing, so it is
    /// sent once it is complete and, on the node that computes digests, has its digest.
    fn is_delayed(&self, available: u64, lacks_digest: bool) -> bool {
        !self.is_announced && self.is_short() && (available < self.head.content_bytes() || lacks_digest)
    }

    /// Returns whether the content travels in one message.
    fn is_single_message(&self) -> bool {
        !self.is_announced && self.position == 0 && self.is_short() && self.aspect.block().is_none()
    }

    fn is_short(&self) -> bool {
        self.head.content_bytes() <= CHUNK_BYTES_MAX as u64
    }

    fn announcement(&self, transfer: TransferId) -> Message {
        Message::File {
            transfer,
            path: self.path.clone(),
            aspect: self.aspect,
            head: (*self.head).clone(),
            position: self.position,
        }
    }

    fn next_chunk(&mut self, to: Rank, transfer: TransferId, available: u64) -> Option<Output> {
        let ready = available.checked_sub(self.position).filter(|&bytes| bytes > 0)?;
        let (offset, in_range) = self.head.locate(self.position)?;
        let bytes = ready.min(in_range).min(CHUNK_BYTES_MAX as u64);
        let position = self.position;
        self.position += bytes;
        let (path, block) = self.piece();
        Some(Output::SendChunk { to, transfer, path, block, position, offset, bytes: bytes as u32 })
    }
}
