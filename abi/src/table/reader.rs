//! Look-ups of paths in a table: the reference for the C readers.

use alloc::vec::Vec;

use super::layout::{MAGIC, State, VERSION, word};
use super::names::Names;
use super::slots::Slots;
use super::sync::{AtomicU64, Ordering};
use crate::attr::{ATTR_WORDS, Attr, Kind};
use crate::hash;
use crate::path::PATH_BYTES_MAX;

/// A reader of one table.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    words: &'a [AtomicU64],
    paths: Slots,
    inodes: Slots,
}

/// A record and the snapshot of its state.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    words: &'a [AtomicU64],
    at: usize,
    /// The kind of what the path leads to.
    pub kind: Kind,
    /// The error number if the kind is [`Kind::Error`].
    pub errno: u16,
    /// The bits at the time of the look-up.
    pub state: State,
}

impl<'a> Reader<'a> {
    /// Opens a table. `None` if it is none of this version, or its header points outside of it.
    pub fn open(words: &'a [AtomicU64]) -> Option<Reader<'a>> {
        let header = |n: usize| words.get(n).map(|w| w.load(Ordering::Relaxed));
        if words.len() < word::HEADER_WORDS
            || words[word::MAGIC].load(Ordering::Acquire) != MAGIC
            || header(word::VERSION)? != VERSION
        {
            return None;
        }
        let part = |at: usize, count: usize| -> Option<Slots> {
            let (at, count) = (header(at)?, header(count)?);
            let end = count.checked_mul(8)?.checked_add(at)?;
            (at % 8 == 0 && count.is_power_of_two() && end <= words.len() as u64 * 8)
                .then_some(Slots { base: at as usize / 8, count })
        };
        let paths = part(word::SLOTS_AT, word::SLOT_COUNT)?;
        let inodes = part(word::INO_SLOTS_AT, word::INO_SLOT_COUNT)?;
        Some(Reader { words, paths, inodes })
    }

    /// Returns the record of exactly this path.
    pub fn find(&self, path: &[u8]) -> Option<Record<'a>> {
        let at = self.paths.find(self.words, hash::bytes(path), |record| {
            Record::at(self.words, record).is_some_and(|r| r.path_is(path))
        })?;
        Record::at(self.words, at)
    }

    /// Returns the record with this number, from [`Record::index`]. `None` for a number that no slot leads
    /// to, be it invented or out of date.
    pub fn record(&self, index: u64) -> Option<Record<'a>> {
        let at = usize::try_from(index).ok()?;
        let record = Record::at(self.words, at)?;
        let found = self.paths.find(self.words, record.path_hash()?, |other| other == at);
        found.map(|_| record)
    }

    /// Returns a record of the file whose copy in the store has this inode number.
    pub fn find_inode(&self, ino: u64) -> Option<Record<'a>> {
        let at = self.inodes.find(self.words, hash::inode(ino), |record| {
            Record::at(self.words, record).is_some_and(|r| r.load(word::RECORD_STORE_INO) == ino)
        })?;
        Record::at(self.words, at)
    }

    /// Returns all records, in no order.
    pub fn records(&self) -> impl Iterator<Item = Record<'a>> + use<'a> {
        let (words, paths) = (self.words, self.paths);
        paths.all(words).filter_map(move |(record, tag)| {
            let record = Record::at(words, record)?;
            (hash::tag(record.path_hash()?) == tag).then_some(record)
        })
    }

    /// Returns false once the session has ended.
    pub fn is_serving(&self) -> bool {
        self.words[word::SERVING].load(Ordering::Acquire) == 1
    }

    /// Returns whether programs run in the session that don't announce their changes.
    pub fn is_unaudited(&self) -> bool {
        self.words[word::UNAUDITED].load(Ordering::Acquire) != 0
    }

    /// Returns the largest file of which content is stored, if there is a limit.
    pub fn stored_file_bytes_max(&self) -> Option<u64> {
        Some(self.words[word::STORED_FILE_BYTES_MAX].load(Ordering::Relaxed)).filter(|&max| max > 0)
    }

    /// Returns one of the header's strings, by the word number of its offset.
    pub fn header_bytes(&self, at: usize) -> Option<Vec<u8>> {
        let (at, bytes) = (self.words.get(at)?, self.words.get(at + 1)?);
        bytes_at(self.words, at.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed))
    }
}

impl<'a> Record<'a> {
    pub(super) fn at(words: &'a [AtomicU64], at: usize) -> Option<Record<'a>> {
        if at.checked_add(word::RECORD_NAME)? >= words.len() {
            return None;
        }
        let (state, kind, errno) = State::from_word(words[at + word::RECORD_STATE].load(Ordering::Acquire));
        Some(Record { words, at, kind, errno, state })
    }

    /// Returns the record's number for [`Reader::record`]. It is stable for the record's life.
    pub fn index(&self) -> u64 {
        self.at as u64
    }

    /// Adds `lookups` references of the kernel to this record.
    pub fn pin(&self, lookups: u64) {
        self.words[self.at + word::RECORD_LOOKUPS].fetch_add(lookups, Ordering::Relaxed);
    }

    /// Removes `lookups` references, at most all. Returns how many are left.
    pub fn release(&self, lookups: u64) -> u64 {
        let count = &self.words[self.at + word::RECORD_LOOKUPS];
        let less = |pinned: u64| Some(pinned.saturating_sub(lookups));
        let pinned = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        pinned.map_or(0, |pinned| pinned.saturating_sub(lookups))
    }

    /// Returns the kernel's number for the backing file of this record's readers, and how often it is open.
    /// It outlives the process that serves the mount, so that a successor continues with it.
    pub fn passing(&self) -> (u32, u32) {
        let word = self.load(word::RECORD_PASSING);
        (word as u32, (word >> 32) as u32)
    }

    /// Sets the result of [`Record::passing`]. Only one thread at a time may.
    pub fn set_passing(&self, number: u32, opened: u32) {
        let word = u64::from(number) | u64::from(opened) << 32;
        self.words[self.at + word::RECORD_PASSING].store(word, Ordering::Relaxed);
    }

    /// Returns the number of the kernel's references.
    pub fn lookups(&self) -> u64 {
        self.load(word::RECORD_LOOKUPS)
    }

    /// Returns the inode number of the copy in the store, 0 if there is none.
    pub fn store_ino(&self) -> u64 {
        self.load(word::RECORD_STORE_INO)
    }

    /// Returns the record's path.
    pub fn path(&self) -> Option<Vec<u8>> {
        let bytes = self.load(word::RECORD_PATH) as u32;
        bytes_at(self.words, (self.at + word::RECORD_NAME) as u64 * 8, u64::from(bytes))
    }

    /// Returns the attributes, once they are known.
    pub fn attr(&self) -> Option<Attr> {
        self.state.contains(State::ATTR).then_some(())?;
        let mut packed = [0; ATTR_WORDS];
        for (number, value) in packed.iter_mut().enumerate() {
            *value = self.load(word::RECORD_ATTR + number);
        }
        Some(Attr::from_words(&packed))
    }

    /// Returns a link's target or a directory's listing.
    pub fn aux(&self) -> Option<Vec<u8>> {
        let known = match self.kind {
            Kind::Link => State::ATTR,
            Kind::Dir => State::LISTED,
            _ => return None,
        };
        self.state.contains(known).then_some(())?;
        bytes_at(self.words, self.load(word::RECORD_AUX_AT), self.load(word::RECORD_AUX_BYTES))
    }

    /// Returns a directory's names, once they are all known.
    pub fn names(&self) -> Option<Names<'a>> {
        (self.kind == Kind::Dir && self.state.contains(State::LISTED)).then_some(())?;
        let at = self.load(word::RECORD_AUX_AT);
        let bytes = usize::try_from(self.load(word::RECORD_AUX_BYTES)).ok()?;
        let words = self.words.get(usize::try_from(at / 8).ok()?..)?;
        if at.is_multiple_of(8) { Names::new(words, bytes) } else { None }
    }

    pub(super) fn path_is(&self, path: &[u8]) -> bool {
        let name = self.at + word::RECORD_NAME;
        let word_count = path.len() / 8 + 1;
        self.load(word::RECORD_PATH) as u32 as usize == path.len()
            && name + word_count <= self.words.len()
            && path.chunks(8).enumerate().all(|(number, chunk)| {
                let mut value = [0; 8];
                value[..chunk.len()].copy_from_slice(chunk);
                self.words[name + number].load(Ordering::Relaxed) == u64::from_le_bytes(value)
            })
    }

    /// Returns the hash of the path; `None` if it is not inside the table.
    pub(super) fn path_hash(&self) -> Option<u64> {
        let bytes = self.load(word::RECORD_PATH) as u32 as usize;
        let name = self.words.get(self.at + word::RECORD_NAME..)?.get(..bytes / 8 + 1)?;
        (bytes <= PATH_BYTES_MAX).then(|| hash::words(name.iter().map(|word| word.load(Ordering::Relaxed)), bytes))
    }

    pub(super) fn load(&self, number: usize) -> u64 {
        self.words[self.at + number].load(Ordering::Relaxed)
    }
}

fn bytes_at(words: &[AtomicU64], at: u64, bytes: u64) -> Option<Vec<u8>> {
    let end = at.checked_add(bytes)?;
    if !at.is_multiple_of(8) || end > words.len() as u64 * 8 {
        return None;
    }
    let mut data = Vec::with_capacity(bytes as usize + 8);
    for word in &words[at as usize / 8..(end as usize).div_ceil(8)] {
        data.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
    }
    data.truncate(bytes as usize);
    Some(data)
}
