//! The reader of a root: answers from the model of the shared file system, piece by piece.

use std::collections::BTreeMap;

use headwater_abi::Path;
use headwater_abi::wire::{Aspect, FileHead};

/// A file in one piece, or a block of it.
pub(crate) type Piece = (Path, Option<u32>);

#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) number: u64,
    pub(crate) aspect: Aspect,
    pub(crate) head: Option<FileHead>,
    pub(crate) position: u64,
    /// Content with more bytes is only opened.
    pub(crate) content_bytes_max: u64,
}

/// Reads under way, and what was read before.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    pub(crate) files: BTreeMap<Piece, Read>,
    next: u64,
    /// How often each thing was read without a reason to read it again.
    counts: BTreeMap<Path, BTreeMap<Aspect, u32>>,
}

impl Reads {
    pub(crate) fn open(&mut self, path: &Path, aspect: Aspect, content_bytes_max: u64) -> u64 {
        self.next += 1;
        let read = Read { number: self.next, aspect, head: None, position: 0, content_bytes_max };
        self.files.insert((path.clone(), aspect.block()), read);
        self.next
    }

    /// Returns the read, unless it was given up.
    pub(crate) fn get(&mut self, piece: &Piece, number: u64) -> Option<&mut Read> {
        self.files.get_mut(piece).filter(|read| read.number == number)
    }

    /// Counts a read. Returns how often it has happened.
    pub(crate) fn count(&mut self, path: &Path, aspect: Aspect) -> u32 {
        let count = self.counts.entry(path.clone()).or_default().entry(aspect).or_default();
        *count += 1;
        *count
    }

    /// Permits to read this again.
    pub(crate) fn excuse(&mut self, path: &Path) {
        self.counts.remove(path);
    }

    /// Permits to read everything again.
    pub(crate) fn excuse_all(&mut self) {
        self.counts.clear();
    }
}
