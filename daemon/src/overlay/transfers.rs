//! Content on its way from peers into the store.

use std::collections::HashMap;
use std::io;

use headwater_abi::Path;
use headwater_abi::wire::{FileHead, Message, TransferId};
use headwater_proto::Rank;
use thiserror::Error;

use crate::store::Store;

/// What arrives from whom.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    files: HashMap<(Rank, TransferId), Expected>,
}

/// A file that arrives, or a block of it.
#[derive(Debug)]
struct Expected {
    path: Path,
    block: Option<u32>,
    head: FileHead,
}

/// What became of a message's content.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The node may see the message.
    Stored,
    /// Content that nobody wants any more: the node need not see it.
    Unwanted,
}

/// Why content could not be stored.
#[derive(Debug, Error)]
pub(crate) enum ArrivalError {
    /// The peer broke the protocol.
    #[error("a chunk lies outside of its file's content")]
    OutOfRange,
    /// The store has no room, or worse.
    #[error("{2}")]
    Store(Path, Option<u32>, io::Error),
}

impl Transfers {
    /// A peer will send this.
    pub(crate) fn expect(&mut self, from: Rank, transfer: TransferId, path: Path, block: Option<u32>, head: FileHead) {
        self.files.insert((from, transfer), Expected { path, block, head });
    }

    /// Nothing more of this file, or of this block, is wanted.
    pub(crate) fn forget(&mut self, path: &Path, block: Option<u32>) {
        self.files.retain(|_, expected| expected.path != *path || expected.block != block);
    }

    /// Nothing more comes from this peer.
    pub(crate) fn forget_peer(&mut self, rank: Rank) {
        self.files.retain(|(from, _), _| *from != rank);
    }

    /// Writes a chunk's bytes to the store; other messages carry none.
    pub(crate) fn arrived(
        &mut self,
        store: &Store,
        from: Rank,
        message: &Message,
        bytes: &[u8],
    ) -> Result<Arrival, ArrivalError> {
        let (transfer, position) = match *message {
            Message::Chunk { transfer, position, .. } => (transfer, position),
            Message::Failed { transfer, .. } => {
                self.files.remove(&(from, transfer));
                return Ok(Arrival::Stored);
            }
            _ => return Ok(Arrival::Stored),
        };
        let Some(Expected { path, block, head }) = self.files.get(&(from, transfer)) else {
            return Ok(Arrival::Unwanted);
        };
        let Some((offset, in_range)) = head.locate(position) else { return Err(ArrivalError::OutOfRange) };
        if bytes.len() as u64 > in_range {
            return Err(ArrivalError::OutOfRange);
        }
        store.write(path, *block, bytes, offset).map_err(|error| ArrivalError::Store(path.clone(), *block, error))?;
        if position + bytes.len() as u64 == head.content_bytes() {
            self.files.remove(&(from, transfer));
        }
        Ok(Arrival::Stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::NodeDir;
    use headwater_abi::Attr;

    #[test]
    fn chunks_stay_within_their_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::create(&NodeDir::new(dir.path()), Vec::new()).unwrap();
        let (path, from, transfer) = (Path::new(b"/f").unwrap(), Rank(0), TransferId(7));
        let attr = Attr { size: 100, ..Attr::default() };
        let head = FileHead { attr, format: 0, ranges: [(0, 10), (50, 10)].into(), whole: false };
        store.incoming(&path).create(&head).unwrap();
        let mut transfers = Transfers::default();
        transfers.expect(from, transfer, path.clone(), None, head);
        let mut arrive = |rank, position, bytes: &[u8]| {
            let message = Message::Chunk { transfer, position, bytes: bytes.len() as u32 };
            transfers.arrived(&store, rank, &message, bytes)
        };
        assert!(matches!(arrive(Rank(1), 0, b"x"), Ok(Arrival::Unwanted)), "another peer's number");
        assert!(matches!(arrive(from, 20, b"x"), Err(ArrivalError::OutOfRange)));
        assert!(matches!(arrive(from, 5, b"0123456789"), Err(ArrivalError::OutOfRange)), "it reaches into a hole");
        assert!(matches!(arrive(from, 0, b"0123456789"), Ok(Arrival::Stored)));
        assert!(matches!(arrive(from, 10, b"abcdefghij"), Ok(Arrival::Stored)));
        assert!(matches!(arrive(from, 0, b"again"), Ok(Arrival::Unwanted)), "it is complete");
        let mut content = [0; 100];
        store.read(&path, None, &mut content, 0).unwrap();
        assert_eq!(
            (&content[..10], &content[10..50], &content[50..60]),
            (&b"0123456789"[..], &[0; 40][..], &b"abcdefghij"[..])
        );
    }
}
