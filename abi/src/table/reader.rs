//! Looking a path up in a table: the reference for the C readers.

use alloc::vec::Vec;

use super::layout::{MAGIC, PROBES_MAX, State, VERSION, word};
use super::{AtomicU64, Ordering};
use crate::attr::{ATTR_WORDS, Attr, Kind};
use crate::hash;

/// A reader of one table.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    words: &'a [AtomicU64],
    slots_at: usize,
    slot_count: u64,
    ino_slots_at: usize,
    ino_slot_count: u64,
}

/// A record and the snapshot of its state.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    words: &'a [AtomicU64],
    at: usize,
    /// The kind of what the path leads to.
    pub kind: Kind,
    /// The error number where the kind is [`Kind::Error`].
    pub errno: u16,
    /// The bits at the time of the look-up.
    pub state: State,
}

impl<'a> Reader<'a> {
    /// `None` if this is no table of this version, or its header points outside of it.
    pub fn open(words: &'a [AtomicU64]) -> Option<Reader<'a>> {
        let header = |n: usize| words.get(n).map(|w| w.load(Ordering::Relaxed));
        if words.len() < word::HEADER_WORDS
            || words[word::MAGIC].load(Ordering::Acquire) != MAGIC
            || header(word::VERSION)? != VERSION
        {
            return None;
        }
        let part = |at: usize, count: usize| -> Option<(usize, u64)> {
            let (at, count) = (header(at)?, header(count)?);
            let end = count.checked_mul(8)?.checked_add(at)?;
            (at % 8 == 0 && count.is_power_of_two() && end <= words.len() as u64 * 8)
                .then_some((at as usize / 8, count))
        };
        let (slots_at, slot_count) = part(word::SLOTS_AT, word::SLOT_COUNT)?;
        let (ino_slots_at, ino_slot_count) = part(word::INO_SLOTS_AT, word::INO_SLOT_COUNT)?;
        Some(Reader { words, slots_at, slot_count, ino_slots_at, ino_slot_count })
    }

    /// The record of exactly this path.
    pub fn find(&self, path: &[u8]) -> Option<Record<'a>> {
        let at = find_slot(self.words, self.slots_at, self.slot_count, hash::bytes(path), |record| {
            Record::at(self.words, record).is_some_and(|r| r.path_is(path))
        })?;
        Record::at(self.words, at)
    }

    /// A record of the file whose copy in the store has this inode number.
    pub fn find_inode(&self, ino: u64) -> Option<Record<'a>> {
        let at = find_slot(self.words, self.ino_slots_at, self.ino_slot_count, hash::inode(ino), |record| {
            Record::at(self.words, record).is_some_and(|r| r.load(word::RECORD_STORE_INO) == ino)
        })?;
        Record::at(self.words, at)
    }

    /// False once the session has ended.
    pub fn is_serving(&self) -> bool {
        self.words[word::SERVING].load(Ordering::Acquire) == 1
    }

    /// One of the header's strings, by the word number of its offset.
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

    /// The record's path.
    pub fn path(&self) -> Option<Vec<u8>> {
        let bytes = self.load(word::RECORD_PATH) as u32;
        bytes_at(self.words, (self.at + word::RECORD_NAME) as u64 * 8, u64::from(bytes))
    }

    /// The attributes, once they are known.
    pub fn attr(&self) -> Option<Attr> {
        self.state.contains(State::ATTR).then_some(())?;
        let mut packed = [0; ATTR_WORDS];
        for (number, value) in packed.iter_mut().enumerate() {
            *value = self.load(word::RECORD_ATTR + number);
        }
        Some(Attr::from_words(&packed))
    }

    /// A link's target or a directory's listing.
    pub fn aux(&self) -> Option<Vec<u8>> {
        let known = match self.kind {
            Kind::Link => State::ATTR,
            Kind::Dir => State::LISTED,
            _ => return None,
        };
        self.state.contains(known).then_some(())?;
        bytes_at(self.words, self.load(word::RECORD_AUX_AT), self.load(word::RECORD_AUX_BYTES))
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

    fn load(&self, number: usize) -> u64 {
        self.words[self.at + number].load(Ordering::Relaxed)
    }
}

/// The record number in the first slot with the hash's tag that `matches`.
pub(super) fn find_slot(
    words: &[AtomicU64],
    base: usize,
    count: u64,
    hash: u64,
    matches: impl Fn(usize) -> bool,
) -> Option<usize> {
    for probe in 0..PROBES_MAX.min(count) {
        let slot = words[base + (hash.wrapping_add(probe) & (count - 1)) as usize].load(Ordering::Acquire);
        if slot == 0 {
            return None;
        }
        let record = slot as u32 as usize;
        if (slot >> 32) as u32 == hash::tag(hash) && matches(record) {
            return Some(record);
        }
    }
    None
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
