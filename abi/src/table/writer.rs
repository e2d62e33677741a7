//! The table's one writer.

use alloc::vec::Vec;

use thiserror::Error;

use super::free::Free;
use super::layout::{Geometry, Header, MAGIC, State, word};
use super::reader::Record;
use super::slots::{Slots, VACATED};
use super::sync::{AtomicU64, Ordering};
use crate::attr::{ATTR_WORDS, Attr, Kind};
use crate::listing::Listing;
use crate::path::Path;
use crate::{hash, listing};

/// Why something could not be published. The path then stays unknown, and its source file is used.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum TableError {
    /// No slot or no heap is left.
    #[error("the table is full")]
    Full,
    /// There is no memory for the heap.
    #[error("no memory for the table's heap")]
    NoMemory,
    /// The slice does not fit the geometry.
    #[error("the mapping is smaller than the table")]
    TooSmall,
    /// A record has another fact already; an entry never changes once it is known.
    #[error("the entry is already known")]
    Known,
    /// The memory to attach to is no table of this version and these sizes.
    #[error("not a table of this version and these sizes")]
    Foreign,
}

/// A fact about a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact<'a> {
    /// There is no such name.
    Absent,
    /// The source returns this error number.
    Error(u16),
    /// A file, a device, or a directory of which only the attributes are known.
    Attr(Attr),
    /// A symbolic link and its target.
    Link(Attr, &'a [u8]),
    /// A directory with all its names.
    Listing(Attr, &'a Listing),
    /// A directory that can be searched but not listed.
    Unlistable(Attr),
}

/// Writes one table. `reserve(end)` must allocate the bytes below `end` before it returns true; the writer
/// never touches the heap beyond what it has reserved.
pub struct Writer<'a, R> {
    pub(super) words: &'a [AtomicU64],
    pub(super) geometry: Geometry,
    pub(super) heap_used: u64,
    pub(super) free: Free,
    pub(super) records: u64,
    pub(super) inodes: u64,
    pub(super) reserve: R,
}

impl<'a, R: FnMut(u64) -> bool> Writer<'a, R> {
    /// Initialises an empty table in zeroed `words`.
    pub fn create(words: &'a [AtomicU64], geometry: Geometry, header: &Header, reserve: R) -> Result<Self, TableError> {
        assert!(geometry.slot_count.is_power_of_two() && geometry.ino_slot_count.is_power_of_two());
        if (words.len() as u64) * 8 < geometry.total_bytes() {
            return Err(TableError::TooSmall);
        }
        let free = Free::default();
        let mut writer = Writer { words, geometry, heap_used: 0, free, records: 0, inodes: 0, reserve };
        let about = [
            (word::GENERATION, header.generation),
            (word::STORE_DEV, device_word(header.store_dev)),
            (word::ROOT_DEV, device_word(header.view.root_dev)),
            (word::ROOT_INO, header.view.root_ino),
            (word::ROOT_MNT_ID, header.view.root_mnt_id),
            (word::MNT_NS, header.view.mnt_ns),
            (word::USER_NS, header.view.user_ns),
            (word::SERVING, 1),
            (word::STORED_FILE_BYTES_MAX, header.stored_file_bytes_max.unwrap_or(0)),
            (word::UNFOLLOWED, u64::from(!header.follows_fork)),
        ];
        for (at, value) in geometry.constants().into_iter().chain(about) {
            writer.put(at, value);
        }
        for (at, bytes) in [
            (word::SCOPE_AT, &header.scope_blob()),
            (word::STORE_AT, &header.store),
            (word::SOCKET_AT, &header.socket),
            (word::COUNTERS_AT, &header.counters),
        ] {
            let offset = writer.put_bytes(bytes)?;
            writer.put(at, offset);
            writer.put(at + 1, bytes.len() as u64);
        }
        writer.store(word::MAGIC, MAGIC, Ordering::Release);
        Ok(writer)
    }

    /// Publishes `fact` about `path`. Known facts stay; publishing the same again has no effect, a listing
    /// may follow attributes, and contradictions are [`TableError::Known`].
    pub fn publish(&mut self, path: &Path, fact: &Fact<'_>) -> Result<(), TableError> {
        let record = self.record(path)?;
        let (state, kind, _) = self.state(record);
        let (new_kind, errno, bits) = match fact {
            Fact::Absent => (Kind::Absent, 0, State::empty()),
            Fact::Error(errno) => (Kind::Error, *errno, State::empty()),
            Fact::Attr(attr) => (attr.kind(), 0, State::ATTR),
            Fact::Link(..) => (Kind::Link, 0, State::ATTR),
            Fact::Listing(..) => (Kind::Dir, 0, State::ATTR | State::LISTED),
            Fact::Unlistable(_) => (Kind::Dir, 0, State::ATTR | State::UNLISTABLE),
        };
        if kind != Kind::Unknown {
            if kind != new_kind {
                return Err(TableError::Known);
            }
            if state.contains(bits) {
                return Ok(());
            }
        }
        if let (Fact::Attr(attr) | Fact::Link(attr, _) | Fact::Listing(attr, _) | Fact::Unlistable(attr), false) =
            (fact, state.contains(State::ATTR))
        {
            for (number, value) in attr.to_words().into_iter().take(ATTR_WORDS - 1).enumerate() {
                self.put(record + word::RECORD_ATTR + number, value);
            }
        }
        let aux: Option<Vec<u8>> = match fact {
            Fact::Link(_, target) => Some(target.to_vec()),
            Fact::Listing(_, listing) => Some(listing.blob().to_vec()),
            _ => None,
        };
        if let Some(aux) = aux {
            let offset = self.put_bytes(&aux)?;
            self.put(record + word::RECORD_AUX_AT, offset);
            self.put(record + word::RECORD_AUX_BYTES, aux.len() as u64);
        }
        self.set_state(record, state | bits, new_kind, errno);
        Ok(())
    }

    /// Sets and clears residency, passthrough and format bits of `path`, adding its record if need be.
    pub fn mark(&mut self, path: &Path, set: State, clear: State) -> Result<(), TableError> {
        let record = self.record(path)?;
        let (state, kind, errno) = self.state(record);
        self.set_state(record, (state - clear) | set, kind, errno);
        Ok(())
    }

    /// Indexes `path` by the inode number of its copy in the store.
    pub fn index_inode(&mut self, path: &Path, ino: u64) -> Result<(), TableError> {
        let record = self.record(path)?;
        self.unindex(record, |indexed| indexed != ino);
        self.put(record + word::RECORD_STORE_INO, ino);
        if self.inodes().find(self.words, hash::inode(ino), |other| other == record).is_some() {
            return Ok(());
        }
        if self.inodes * 2 >= self.geometry.ino_slot_count {
            return Err(TableError::Full);
        }
        self.insert(self.inodes(), hash::inode(ino), record)?;
        self.inodes += 1;
        Ok(())
    }

    /// Undoes [`Writer::index_inode`]: the copy is removed, and its inode number may name another file.
    pub fn forget_inode(&mut self, path: &Path) -> Result<(), TableError> {
        let record = self.record(path)?;
        self.unindex(record, |_| true);
        Ok(())
    }

    /// Publishes which memory domains have mirrors of their own. A process reads it once, when it starts.
    pub fn set_domains(&mut self, domains: u64) {
        self.put(word::DOMAINS, domains);
    }

    /// Publishes the mount in which processes under audit read large files. A process reads it once, when it starts.
    pub fn set_mount(&mut self, mount_point: &[u8], device: (u32, u32)) -> Result<(), TableError> {
        let at = self.put_bytes(mount_point)?;
        self.put(word::MOUNT_AT, at);
        self.put(word::MOUNT_DEV, device_word(device));
        self.put(word::MOUNT_BYTES, mount_point.len() as u64);
        Ok(())
    }

    /// Publishes that programs run which don't announce their changes.
    pub fn set_unaudited(&mut self) {
        self.store(word::UNAUDITED, 1, Ordering::Release);
    }

    /// Publishes that no request will be answered any more.
    pub fn close(&mut self) {
        self.store(word::SERVING, 2, Ordering::Release);
    }

    /// Returns the bytes in use, the slots included.
    pub fn used_bytes(&self) -> u64 {
        self.geometry.heap_at() + self.heap_used
    }

    /// Returns the number of records.
    pub fn records(&self) -> u64 {
        self.records
    }

    fn record(&mut self, path: &Path) -> Result<usize, TableError> {
        let hash = path.hash();
        if let Some(record) = self.find(path) {
            return Ok(record);
        }
        if self.records * 2 >= self.geometry.slot_count {
            return Err(TableError::Full);
        }
        let bytes = record_bytes(path.as_bytes().len() as u64);
        let at = self.allocate(bytes)?;
        let record = at as usize / 8;
        // The space may have been in use before, or been begun by a writer that died.
        (record..record + bytes as usize / 8).for_each(|word| self.put(word, 0));
        self.put(record + word::RECORD_PATH, path.as_bytes().len() as u64 | u64::from(hash::tag(hash)) << 32);
        self.put_words(record + word::RECORD_NAME, path.as_bytes());
        if let Err(error) = self.insert(self.paths(), hash, record) {
            self.free.add(at, bytes);
            return Err(error);
        }
        self.count_records(self.records + 1);
        Ok(record)
    }

    pub(super) fn find(&self, path: &Path) -> Option<usize> {
        let is_it = |record| Record::at(self.words, record).is_some_and(|r| r.path_is(path.as_bytes()));
        self.paths().find(self.words, path.hash(), is_it)
    }

    pub(super) fn paths(&self) -> Slots {
        Slots { base: self.geometry.slots_at() as usize / 8, count: self.geometry.slot_count }
    }

    pub(super) fn inodes(&self) -> Slots {
        Slots { base: self.geometry.ino_slots_at() as usize / 8, count: self.geometry.ino_slot_count }
    }

    fn insert(&self, slots: Slots, hash: u64, record: usize) -> Result<(), TableError> {
        let is_free = |at: &usize| matches!(self.words[*at].load(Ordering::Relaxed), 0 | VACATED);
        let at = slots.places(hash).find(is_free).ok_or(TableError::Full)?;
        self.store(at, u64::from(hash::tag(hash)) << 32 | record as u64, Ordering::Release);
        Ok(())
    }

    /// Removes the inode number of a record from the index, if `goes` accepts it.
    pub(super) fn unindex(&mut self, record: usize, goes: impl Fn(u64) -> bool) {
        let ino = self.words[record + word::RECORD_STORE_INO].load(Ordering::Relaxed);
        if ino == 0 || !goes(ino) {
            return;
        }
        self.put(record + word::RECORD_STORE_INO, 0);
        if self.vacate(self.inodes(), hash::inode(ino), record) {
            self.inodes -= 1;
        }
    }

    /// Empties the slot that leads to `record`. Searches have to pass it, so the slot is only marked, unless
    /// it ends a run.
    pub(super) fn vacate(&self, slots: Slots, hash: u64, record: usize) -> bool {
        let Some(mut at) = self.replace(slots, hash, record, VACATED) else { return false };
        let load = |at: usize| self.words[at].load(Ordering::Relaxed);
        while load(at) == VACATED && load(slots.after(at)) == 0 {
            self.store(at, 0, Ordering::Release);
            at = slots.before(at);
        }
        true
    }

    /// Replaces the slot that leads to `record`. Returns its position.
    pub(super) fn replace(&self, slots: Slots, hash: u64, record: usize, by: u64) -> Option<usize> {
        let slot = u64::from(hash::tag(hash)) << 32 | record as u64;
        let at = slots.places(hash).find(|at| self.words[*at].load(Ordering::Relaxed) == slot)?;
        self.store(at, by, Ordering::Release);
        Some(at)
    }

    pub(super) fn count_records(&mut self, records: u64) {
        self.records = records;
        self.put(word::RECORDS, records);
    }

    fn state(&self, record: usize) -> (State, Kind, u16) {
        State::from_word(self.words[record + word::RECORD_STATE].load(Ordering::Relaxed))
    }

    pub(super) fn set_state(&self, record: usize, state: State, kind: Kind, errno: u16) {
        self.store(record + word::RECORD_STATE, state.word(kind, errno), Ordering::Release);
    }

    pub(super) fn put(&self, at: usize, value: u64) {
        self.store(at, value, Ordering::Relaxed);
    }

    /// Does a store; all stores of the writer are made here.
    pub(super) fn store(&self, at: usize, value: u64, order: Ordering) {
        #[cfg(all(test, not(loom)))]
        super::attach::tests::before_store();
        self.words[at].store(value, order);
    }

    pub(super) fn put_bytes(&mut self, bytes: &[u8]) -> Result<u64, TableError> {
        let at = self.allocate(aux_bytes(bytes.len() as u64))?;
        self.put_words(at as usize / 8, bytes);
        Ok(at)
    }

    fn put_words(&self, at: usize, bytes: &[u8]) {
        for (number, chunk) in bytes.chunks(8).enumerate() {
            let mut value = [0; 8];
            value[..chunk.len()].copy_from_slice(chunk);
            self.put(at + number, u64::from_le_bytes(value));
        }
        if bytes.len().is_multiple_of(8) {
            self.put(at + bytes.len() / 8, 0);
        }
    }

    fn allocate(&mut self, bytes: u64) -> Result<u64, TableError> {
        if let Some(at) = self.free.take(bytes) {
            return Ok(at);
        }
        let end = self.heap_used + bytes;
        if end > self.geometry.heap_bytes {
            return Err(TableError::Full);
        }
        let at = self.geometry.heap_at() + self.heap_used;
        if !(self.reserve)(at + bytes) {
            return Err(TableError::NoMemory);
        }
        self.heap_used = end;
        self.put(word::HEAP_USED, end);
        Ok(at)
    }
}

impl<R> core::fmt::Debug for Writer<'_, R> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Writer").field("records", &self.records).field("heap_used", &self.heap_used).finish()
    }
}

/// Returns a device's number, major and minor, as a word.
fn device_word((major, minor): (u32, u32)) -> u64 {
    u64::from(major) | u64::from(minor) << 32
}

/// Returns the heap bytes of a record whose path has so many.
pub(super) fn record_bytes(path: u64) -> u64 {
    (word::RECORD_NAME as u64 + path / 8 + 1) * 8
}

/// Returns the heap bytes of a listing, a link's target or a header's string of so many, with its NUL.
pub(super) fn aux_bytes(bytes: u64) -> u64 {
    (bytes / 8 + 1) * 8
}

const _: () = assert!(listing::LISTING_NAMES_MAX < u32::MAX as usize);
