//! Content that arrives from peers, and its digests.

use std::collections::HashMap;
use std::io;
use std::ops::Range;

use headwater_abi::Path;
use headwater_abi::wire::{Digest, FileHead, Message, TransferId};
use headwater_proto::Rank;
use headwater_store::Digester;
use headwater_store::Store;
use thiserror::Error;

/// A file, or a block of it.
type Piece = (Path, Option<u32>);

/// Incoming pieces and their senders.
#[derive(Debug, Default)]
pub struct Transfers {
    senders: HashMap<(Rank, TransferId), Piece>,
    /// The pieces. A change of the sender keeps the content and its hash so far.
    pieces: HashMap<Piece, Arriving>,
}

/// An incoming piece.
#[derive(Debug)]
struct Arriving {
    head: FileHead,
    digester: Digester,
    /// Ranges that are published already.
    have: Option<FileHead>,
    /// The sender, and its number of the transfer.
    sender: (Rank, TransferId),
}

/// The result of a message with content or a digest.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The node handles the message.
    Right,
    /// The content differs from what the reader read, and must not be used.
    Wrong,
    /// The content is no longer needed; the message is dropped.
    Unwanted,
}

/// Why content could not be stored.
#[derive(Debug, Error)]
pub enum ArrivalError {
    /// The peer broke the protocol.
    #[error("a chunk is not the next of its file's content")]
    OutOfRange,
    /// The store failed, mostly for want of room.
    #[error("{2}")]
    Store(Path, Option<u32>, io::Error),
}

impl Transfers {
    /// Expects a piece from a peer, from `position` of its content on, instead of from an earlier sender. All before
    /// that position has arrived or is in the store. Ranges of `have` are published and not written again.
    pub fn expect(
        &mut self,
        store: &Store,
        sender: (Rank, TransferId),
        (path, block): Piece,
        head: FileHead,
        position: u64,
        have: Option<FileHead>,
    ) -> io::Result<()> {
        let piece = (path, block);
        let known = self.remove(&piece);
        let mut digester = match known {
            Some(known) if known.head == head && known.digester.position() <= position => known.digester,
            _ => Digester::default(),
        };
        digester.hash_stored(&head, position, |bytes, offset| store.read(&piece.0, block, bytes, offset))?;
        self.senders.insert(sender, piece.clone());
        self.pieces.insert(piece, Arriving { head, digester, sender, have });
        Ok(())
    }

    /// Drops a file, or a block, that is complete or discarded.
    pub fn forget(&mut self, path: &Path, block: Option<u32>) {
        self.remove(&(path.clone(), block));
    }

    /// Drops a peer's transfers. Other peers may continue them.
    pub fn forget_peer(&mut self, rank: Rank) {
        self.senders.retain(|(from, _), _| *from != rank);
    }

    /// Writes a chunk to the store and hashes it, or compares a complete piece with its sender's digest; other messages
    /// have no content.
    pub fn arrived(
        &mut self,
        store: &Store,
        from: Rank,
        message: &Message,
        bytes: &[u8],
    ) -> Result<Arrival, ArrivalError> {
        let (transfer, position) = match *message {
            Message::Chunk { transfer, position, .. } => (transfer, position),
            Message::Failed { transfer, .. } => {
                self.senders.remove(&(from, transfer));
                return Ok(Arrival::Right);
            }
            Message::End { transfer, ref digest } => return self.verify(from, transfer, digest),
            _ => return Ok(Arrival::Right),
        };
        let Some(piece) = self.senders.get(&(from, transfer)) else { return Ok(Arrival::Unwanted) };
        let Some(Arriving { head, digester, have, .. }) = self.pieces.get_mut(piece) else {
            return Ok(Arrival::Unwanted);
        };
        if position != digester.position() {
            return Err(ArrivalError::OutOfRange);
        }
        let Some((offset, in_range)) = head.locate(position) else { return Err(ArrivalError::OutOfRange) };
        if bytes.len() as u64 > in_range {
            return Err(ArrivalError::OutOfRange);
        }
        let (path, block) = piece;
        for range in missing(have.as_ref(), offset, bytes.len()) {
            let at = offset + range.start as u64;
            let written = store.write(path, *block, &bytes[range], at);
            written.map_err(|error| ArrivalError::Store(path.clone(), *block, error))?;
        }
        digester.update(bytes);
        Ok(Arrival::Right)
    }

    /// Compares a piece with its sender's digest. A damaged piece is dropped and must be sent again.
    ///
    /// # Errors
    /// The digest comes before the end of the content.
    fn verify(&mut self, from: Rank, transfer: TransferId, expected: &Digest) -> Result<Arrival, ArrivalError> {
        let Some(piece) = self.senders.get(&(from, transfer)).cloned() else { return Ok(Arrival::Unwanted) };
        let Some(Arriving { head, digester, .. }) = self.remove(&piece) else { return Ok(Arrival::Unwanted) };
        if digester.position() != head.content_bytes() {
            return Err(ArrivalError::OutOfRange);
        }
        Ok(if digester.digest() == *expected { Arrival::Right } else { Arrival::Wrong })
    }

    fn remove(&mut self, piece: &Piece) -> Option<Arriving> {
        let arriving = self.pieces.remove(piece)?;
        // The peer may have reconnected and used the number for another piece.
        if self.senders.get(&arriving.sender) == Some(piece) {
            self.senders.remove(&arriving.sender);
        }
        Some(arriving)
    }
}

/// Stores all of a file's content; ranges of `have` are not written again.
pub fn store_all(
    store: &mut Store,
    path: &Path,
    head: &FileHead,
    have: Option<&FileHead>,
    content: &[u8],
) -> io::Result<()> {
    let incoming = store.incoming(path);
    incoming.create(head)?;
    let have = have.filter(|_| incoming.is_in_place());
    let mut rest = content;
    for &(offset, bytes) in head.ranges.iter() {
        let (part, behind) = rest.split_at_checked(bytes as usize).ok_or(io::ErrorKind::UnexpectedEof)?;
        for range in missing(have, offset, part.len()) {
            store.write(path, None, &part[range.clone()], offset + range.start as u64)?;
        }
        rest = behind;
    }
    Ok(())
}

/// Returns the unpublished parts of `bytes` bytes from `offset` on.
fn missing(have: Option<&FileHead>, offset: u64, bytes: usize) -> Vec<Range<usize>> {
    let (mut at, end) = (offset, offset + bytes as u64);
    let mut missing = Vec::new();
    for &(start, length) in have.iter().flat_map(|have| have.ranges.iter()) {
        let (start, stop) = (start.clamp(at, end), (start + length).clamp(at, end));
        if stop > start {
            missing.push(at..start);
            at = stop;
        }
    }
    missing.push(at..end);
    let relative = |range: Range<u64>| (range.start - offset) as usize..(range.end - offset) as usize;
    missing.into_iter().map(relative).filter(|range| !range.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_abi::Attr;
    use headwater_store::digest;
    use headwater_store::layout::NodeDir;
    use proptest::prelude::*;
    use tempfile::TempDir;

    const CONTENT: &[u8; 20] = b"0123456789abcdefghij";

    struct Fixture {
        _dir: TempDir,
        store: Store,
        transfers: Transfers,
        path: Path,
        head: FileHead,
    }

    impl Fixture {
        /// A file of which two ranges of ten bytes are sent.
        fn new() -> Fixture {
            let dir = tempfile::tempdir().unwrap();
            let mut store = Store::create(&NodeDir::new(dir.path()), Vec::new()).unwrap();
            let path = Path::new(b"/f").unwrap();
            let attr = Attr { size: 100, ..Attr::default() };
            let head = FileHead { attr, format: 0, ranges: [(0, 10), (50, 10)].into(), whole: false };
            store.incoming(&path).create(&head).unwrap();
            Fixture { _dir: dir, store, transfers: Transfers::default(), path, head }
        }

        fn expect(&mut self, from: u32, transfer: u64, position: u64) {
            let (piece, head) = ((self.path.clone(), None), self.head.clone());
            self.transfers
                .expect(&self.store, (Rank(from), TransferId(transfer)), piece, head, position, None)
                .unwrap();
        }

        fn arrive(&mut self, from: u32, transfer: u64, position: u64, bytes: &[u8]) -> Result<Arrival, ArrivalError> {
            let message = Message::Chunk { transfer: TransferId(transfer), position, bytes: bytes.len() as u32 };
            self.transfers.arrived(&self.store, Rank(from), &message, bytes)
        }

        /// Sends the chunk of these positions.
        fn send(&mut self, from: u32, transfer: u64, positions: std::ops::Range<usize>) {
            let arrival = self.arrive(from, transfer, positions.start as u64, &CONTENT[positions]);
            assert!(matches!(arrival, Ok(Arrival::Right)), "{arrival:?}");
        }

        fn verify(&mut self, from: u32, transfer: u64, expected: &[u8]) -> Result<Arrival, ArrivalError> {
            self.transfers.verify(Rank(from), TransferId(transfer), &digest(expected))
        }

        fn assert_empty(&self) {
            assert!(self.transfers.senders.is_empty() && self.transfers.pieces.is_empty());
        }
    }

    #[test]
    fn chunks_stay_within_their_file_and_come_in_order() {
        let mut f = Fixture::new();
        f.expect(0, 7, 0);
        assert!(matches!(f.arrive(1, 7, 0, b"x"), Ok(Arrival::Unwanted)), "another peer's number");
        for (position, bytes, why) in
            [(20, &b"x"[..], "beyond the end"), (0, b"0123456789a", "into a hole"), (1, b"1", "before it is due")]
        {
            assert!(matches!(f.arrive(0, 7, position, bytes), Err(ArrivalError::OutOfRange)), "{why}");
        }
        f.send(0, 7, 0..10);
        assert!(matches!(f.arrive(0, 7, 0, b"0"), Err(ArrivalError::OutOfRange)), "again");
        f.send(0, 7, 10..20);
        let mut content = [0; 100];
        f.store.read(&f.path, None, &mut content, 0).unwrap();
        assert_eq!(
            (&content[..10], &content[10..50], &content[50..60]),
            (&CONTENT[..10], &[0; 40][..], &CONTENT[10..])
        );
        assert!(matches!(f.verify(0, 7, CONTENT), Ok(Arrival::Right)));
        assert!(matches!(f.arrive(0, 7, 0, b"again"), Ok(Arrival::Unwanted)), "it is complete already");
        f.assert_empty();
    }

    #[test]
    fn another_sender_goes_on_where_the_first_stopped() {
        let mut f = Fixture::new();
        f.expect(0, 7, 0);
        f.send(0, 7, 0..4);
        f.expect(1, 3, 4);
        assert!(matches!(f.arrive(0, 7, 4, b"late"), Ok(Arrival::Unwanted)));
        f.send(1, 3, 4..10);
        f.transfers.forget_peer(Rank(1));
        assert!(matches!(f.arrive(1, 3, 10, b"late"), Ok(Arrival::Unwanted)));
        f.expect(2, 3, 10);
        let (other, head) = ((Path::new(b"/g").unwrap(), None), f.head.clone());
        f.transfers.expect(&f.store, (Rank(0), TransferId(7)), other.clone(), head, 0, None).unwrap();
        f.transfers.forget(&other.0, None);
        f.send(2, 3, 10..20);
        assert!(matches!(f.verify(1, 3, CONTENT), Ok(Arrival::Unwanted)));
        assert!(matches!(f.verify(2, 3, CONTENT), Ok(Arrival::Right)));
        f.assert_empty();
    }

    #[test]
    fn what_is_stored_already_is_hashed_from_the_store() {
        let mut f = Fixture::new();
        f.store.write(&f.path, None, &CONTENT[..10], 0).unwrap();
        f.store.write(&f.path, None, &CONTENT[10..13], 50).unwrap();
        f.expect(0, 1, 13);
        f.send(0, 1, 13..20);
        assert!(matches!(f.verify(0, 1, CONTENT), Ok(Arrival::Right)));
    }

    #[test]
    fn what_is_wrong_comes_anew() {
        let mut f = Fixture::new();
        f.expect(0, 1, 0);
        f.arrive(0, 1, 0, b"wrong").unwrap();
        f.send(0, 1, 5..10);
        f.send(0, 1, 10..20);
        assert!(matches!(f.verify(0, 1, CONTENT), Ok(Arrival::Wrong)));
        f.expect(1, 1, 0);
        f.send(1, 1, 0..10);
        f.expect(1, 2, 0);
        f.send(1, 2, 0..10);
        f.send(1, 2, 10..20);
        assert!(matches!(f.verify(1, 2, CONTENT), Ok(Arrival::Right)), "a repeated transfer counts from its beginning");
        f.assert_empty();
    }

    #[test]
    fn another_version_begins_anew() {
        let mut f = Fixture::new();
        f.expect(0, 1, 0);
        f.send(0, 1, 0..10);
        f.head.attr.mtime.0 += 1;
        f.expect(0, 2, 0);
        f.send(0, 2, 0..10);
        f.send(0, 2, 10..20);
        assert!(matches!(f.verify(0, 2, CONTENT), Ok(Arrival::Right)));
    }

    #[test]
    fn the_end_comes_last() {
        let mut f = Fixture::new();
        f.expect(0, 1, 0);
        f.send(0, 1, 0..10);
        assert!(matches!(f.verify(0, 1, &CONTENT[..10]), Err(ArrivalError::OutOfRange)));
        f.expect(0, 2, 0);
        f.transfers.forget(&f.path.clone(), None);
        assert!(matches!(f.verify(0, 2, CONTENT), Ok(Arrival::Unwanted)));
        f.assert_empty();
    }

    #[test]
    fn all_of_a_file_is_stored_at_once() {
        let mut f = Fixture::new();
        let read = |f: &Fixture| {
            let mut content = [0; 20];
            f.store.read_ranges(&f.path, None, &f.head.ranges, &mut content).unwrap();
            content
        };
        assert!(store_all(&mut f.store, &f.path, &f.head, None, &CONTENT[..19]).is_err());
        store_all(&mut f.store, &f.path, &f.head, None, CONTENT).unwrap();
        assert_eq!(&read(&f), CONTENT);
        f.store.complete(&f.path, &f.head).unwrap();
        store_all(&mut f.store, &f.path, &f.head, Some(&f.head), &[b'x'; 20]).unwrap();
        f.store.complete(&f.path, &f.head).unwrap();
        assert_eq!(&read(&f), CONTENT, "published ranges stay");
    }

    #[test]
    fn what_is_published_is_not_written_again() {
        let head = |ranges: &[(u64, u64)]| {
            let attr = Attr { size: 100, ..Attr::default() };
            FileHead { attr, format: 0, ranges: ranges.into(), whole: false }
        };
        let have = head(&[(0, 10), (20, 5), (40, 60)]);
        assert_eq!(missing(None, 5, 10), vec![0..10]);
        assert_eq!(missing(Some(&have), 0, 100), [10..20, 25..40]);
        assert_eq!(missing(Some(&have), 5, 17), vec![5..15]);
        assert_eq!(missing(Some(&have), 22, 10), vec![3..10]);
        assert!(missing(Some(&have), 45, 10).is_empty());
        assert_eq!(missing(Some(&have), 12, 6), vec![0..6]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Senders change, and each begins where the last one stopped or before. The content is right, unless one byte
        /// is wrong.
        #[test]
        fn content_is_checked_whichever_peer_sends_it(
            steps in proptest::collection::vec(any::<(u8, Option<u8>)>(), 0..12),
            wrong in proptest::option::of(0..20usize),
        ) {
            let mut f = Fixture::new();
            let (mut position, mut sender) = (0, 0);
            f.expect(0, 0, 0);
            let rest = [(20, None); 4];
            for (bytes, change) in steps.into_iter().chain(rest) {
                if let Some(back) = change {
                    position -= position.min(usize::from(back) % 4);
                    sender += 1;
                    f.expect(sender, u64::from(sender), position as u64);
                }
                let end = if position < 10 { 10 } else { 20 };
                let end = end.min(position + usize::from(bytes).max(1));
                if position < end {
                    let mut chunk = CONTENT[position..end].to_vec();
                    if let Some(wrong) = wrong.filter(|wrong| (position..end).contains(wrong)) {
                        chunk[wrong - position] ^= 1;
                    }
                    let arrival = f.arrive(sender, u64::from(sender), position as u64, &chunk);
                    prop_assert!(matches!(arrival, Ok(Arrival::Right)), "{:?}", arrival);
                    position = end;
                }
            }
            let validation = f.verify(sender, u64::from(sender), CONTENT).unwrap();
            prop_assert_eq!(validation, if wrong.is_some() { Arrival::Wrong } else { Arrival::Right });
            f.assert_empty();
        }
    }
}
