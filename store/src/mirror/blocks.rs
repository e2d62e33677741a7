//! Files of which some blocks are in the store: which ones, readable by every thread; and files whose use
//! the node wants to hear of.
//!
//! The event loop alone changes this. A copy stays the same file from its first block until it is
//! complete or evicted, and who reads a block holds it open, so that what was said to be there is.

use std::collections::{HashMap, HashSet};
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use headwater_abi::wire::block_count;
use headwater_abi::{Attr, Path};

use super::{Incoming, Store, finish};

/// The files that are there in part.
#[derive(Debug, Default)]
pub struct Blocks {
    files: RwLock<HashMap<Path, Arc<Partial>>>,
    /// How many there are, to spare most readers the lock.
    count: AtomicUsize,
    /// Whole files whose use is to be told.
    marks: Mutex<HashSet<Path>>,
    mark_count: AtomicUsize,
}

/// Whole files that are marked at once; of more, the use is not told.
const MARKS_MAX: usize = 4096;

/// A sparse copy.
#[derive(Debug)]
pub struct Partial {
    copy: File,
    /// A bit for each block.
    resident: Box<[AtomicU64]>,
    marked: Box<[AtomicU64]>,
    /// True if other content stood in the copy before.
    is_older: bool,
}

/// A sparse copy that is not open.
#[derive(Debug)]
pub(super) struct Closed {
    resident: Box<[AtomicU64]>,
    marked: Box<[AtomicU64]>,
    is_older: bool,
}

/// What there is of a block.
#[derive(Clone, Debug)]
pub enum Residency {
    /// Nothing.
    Absent,
    /// All of it, in this copy.
    Resident(Arc<Partial>),
    /// The same; and the node wants to know that it is used. Said once.
    Marked(Arc<Partial>),
}

impl Blocks {
    /// What there is of a block.
    pub fn get(&self, path: &Path, block: u32) -> Residency {
        if self.count.load(Ordering::Acquire) == 0 {
            return Residency::Absent;
        }
        let file = self.files.read().unwrap_or_else(PoisonError::into_inner).get(path).map(Arc::clone);
        match file {
            Some(file) if !file.has(block) => Residency::Absent,
            Some(file) if take(&file.marked, block) => Residency::Marked(file),
            Some(file) => Residency::Resident(file),
            None => Residency::Absent,
        }
    }

    /// Whether there is any block of this file.
    pub fn has_any(&self, path: &Path) -> bool {
        self.partial(path).is_some_and(|file| file.resident.iter().any(|word| word.load(Ordering::Acquire) != 0))
    }

    /// Whether the node wants to know that this whole file is used. Said once.
    pub fn take_mark(&self, path: &Path) -> bool {
        if self.mark_count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let was_marked = marks.remove(path);
        self.mark_count.store(marks.len(), Ordering::Relaxed);
        was_marked
    }

    /// The node wants to know when this whole file is used.
    pub fn mark(&self, path: &Path) {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        if marks.len() < MARKS_MAX {
            marks.insert(path.clone());
        }
        self.mark_count.store(marks.len(), Ordering::Relaxed);
    }

    pub(super) fn partial(&self, path: &Path) -> Option<Arc<Partial>> {
        self.files.read().unwrap_or_else(PoisonError::into_inner).get(path).map(Arc::clone)
    }

    pub(super) fn insert(&self, path: &Path, partial: Arc<Partial>) {
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        files.insert(path.clone(), partial);
        self.count.store(files.len(), Ordering::Release);
    }

    pub(super) fn remove(&self, path: &Path) -> Option<Arc<Partial>> {
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        let partial = files.remove(path);
        self.count.store(files.len(), Ordering::Release);
        partial
    }
}

impl Partial {
    /// A copy of a file of `size` bytes of which no block is said to be there; some of it is if other
    /// content `is_older`.
    pub(super) fn new(copy: File, size: u64, is_older: bool) -> Partial {
        let words = block_count(size).div_ceil(64) as usize;
        let none = || (0..words).map(|_| AtomicU64::new(0)).collect();
        Partial { copy, resident: none(), marked: none(), is_older }
    }

    fn close(self) -> Closed {
        let Partial { resident, marked, is_older, .. } = self;
        Closed { resident, marked, is_older }
    }

    /// True if the copy was made for blocks.
    pub(super) fn is_new(&self) -> bool {
        !self.is_older
    }

    /// The sparse copy, open; a resident block's bytes stand where the original's do.
    pub fn copy(&self) -> &File {
        &self.copy
    }

    /// A block is all there.
    pub(super) fn add(&self, block: u32, is_marked: bool) {
        if is_marked {
            set(&self.marked, block);
        }
        set(&self.resident, block);
    }

    /// True if no block is there.
    pub(super) fn is_empty(&self) -> bool {
        self.resident.iter().all(|word| word.load(Ordering::Relaxed) == 0)
    }

    fn has(&self, block: u32) -> bool {
        let word = self.resident.get(block as usize / 64);
        word.is_some_and(|word| word.load(Ordering::Acquire) >> (block % 64) & 1 == 1)
    }
}

impl Store {
    /// Where a block of `path`, a file of `size` bytes, is to be written.
    pub fn incoming_block(&mut self, path: &Path, block: u32, size: u64) -> io::Result<Arc<Incoming>> {
        let piece = (path.clone(), Some(block));
        if let Some(incoming) = self.incoming.get(&piece) {
            return Ok(Arc::clone(incoming));
        }
        let partial = self.partial_of(path, size)?;
        let (number, _) = self.beside();
        let incoming = Arc::new(Incoming::block(number, partial, self.budget.clone()));
        self.incoming.insert(piece, Arc::clone(&incoming));
        Ok(incoming)
    }

    /// A block is complete. With `is_marked`, the first who reads it is told so.
    pub fn complete_block(&mut self, path: &Path, block: u32, is_marked: bool) -> io::Result<()> {
        let incoming = self.incoming.remove(&(path.clone(), Some(block)));
        let partial = self.blocks.partial(path).ok_or(io::ErrorKind::NotFound)?;
        self.count(path, &partial.copy().metadata()?, incoming.and_then(|incoming| incoming.take_room()));
        partial.add(block, is_marked);
        Ok(())
    }

    /// The sparse copy of `path`, a file of `size` bytes; made in the mirror if need be.
    fn partial_of(&mut self, path: &Path, size: u64) -> io::Result<Arc<Partial>> {
        if let Some(partial) = self.blocks.partial(path) {
            return Ok(partial);
        }
        let copy = self.copy_of(path);
        let is_hidden = self.hidden.contains(path);
        let before = std::fs::symlink_metadata(&copy).ok().filter(|metadata| metadata.is_file() && !is_hidden);
        let mut options = File::options();
        let partial = match before {
            Some(before) => {
                std::fs::set_permissions(&copy, Permissions::from_mode(before.mode() | 0o600))?;
                Partial::new(options.read(true).write(true).open(&copy)?, size, true)
            }
            None => {
                let (_, beside) = self.beside();
                let file = options.read(true).write(true).create_new(true).mode(0o600).open(&beside)?;
                let placed = file.set_len(size).and_then(|()| self.put(path, &beside));
                placed.inspect_err(|_| drop(std::fs::remove_file(&beside)))?;
                Partial::new(file, size, false)
            }
        };
        let partial = Arc::new(partial);
        self.blocks.insert(path, Arc::clone(&partial));
        Ok(partial)
    }

    /// A sparse copy of which nothing came about goes again.
    pub(super) fn drop_empty(&mut self, path: &Path) {
        let Some(partial) = self.blocks.partial(path).filter(|partial| partial.is_empty()) else { return };
        if self.incoming.keys().any(|(of, block)| of == path && block.is_some()) {
            return;
        }
        self.blocks.remove(path);
        let is_new = partial.is_new();
        drop(partial);
        if is_new {
            let _ = self.remove_name(&self.copy_of(path));
        }
    }

    /// Closes the sparse copy of `path`, if there is one, so that nobody has it open; refused with
    /// [`io::ErrorKind::WouldBlock`] while a block of it is being read.
    pub(super) fn close_partial(&mut self, path: &Path) -> io::Result<Option<Closed>> {
        let Some(partial) = self.blocks.remove(path) else { return Ok(None) };
        match Arc::try_unwrap(partial) {
            Ok(partial) => Ok(Some(partial.close())),
            Err(partial) => {
                self.blocks.insert(path, partial);
                Err(io::ErrorKind::WouldBlock.into())
            }
        }
    }

    /// Undoes [`Store::close_partial`].
    pub(super) fn reopen_partial(&mut self, path: &Path, closed: Closed) -> io::Result<()> {
        let copy = self.copy_of(path);
        let mode = std::fs::symlink_metadata(&copy)?.mode();
        std::fs::set_permissions(&copy, Permissions::from_mode(mode | 0o600))?;
        let copy = File::options().read(true).write(true).open(copy)?;
        let Closed { resident, marked, is_older } = closed;
        self.blocks.insert(path, Arc::new(Partial { copy, resident, marked, is_older }));
        Ok(())
    }

    /// All of a sparse copy is there: it is a file like others; its inode number. `None` if there is
    /// no sparse copy.
    pub(super) fn complete_partial(&mut self, path: &Path, attr: &Attr) -> Option<io::Result<u64>> {
        let partial = self.blocks.remove(path)?;
        let result = finish(&partial.copy, attr).and_then(|()| partial.copy.metadata());
        drop(partial);
        match &result {
            Ok(metadata) => self.count(path, metadata, None),
            Err(_) => drop(self.remove_name(&self.copy_of(path))),
        }
        Some(result.map(|metadata| metadata.ino()))
    }
}

fn set(words: &[AtomicU64], block: u32) {
    if let Some(word) = words.get(block as usize / 64) {
        word.fetch_or(1 << (block % 64), Ordering::Release);
    }
}

/// Clears a bit; whether it was set.
fn take(words: &[AtomicU64], block: u32) -> bool {
    let bit = 1 << (block % 64);
    let is_set = |word: &AtomicU64| word.load(Ordering::Relaxed) & bit != 0;
    words
        .get(block as usize / 64)
        .is_some_and(|word| is_set(word) && word.fetch_and(!bit, Ordering::Relaxed) & bit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_abi::wire::BLOCK_BYTES;

    #[test]
    fn a_mark_is_said_once() {
        let (blocks, path) = (Blocks::default(), Path::new(b"/f").unwrap());
        let partial = Arc::new(Partial::new(tempfile::tempfile().unwrap(), 100 * BLOCK_BYTES, false));
        assert!(matches!(blocks.get(&path, 0), Residency::Absent));
        blocks.insert(&path, Arc::clone(&partial));
        partial.add(70, true);
        partial.add(99, false);
        assert!(matches!(blocks.get(&path, 70), Residency::Marked(_)));
        assert!(matches!(blocks.get(&path, 70), Residency::Resident(_)));
        assert!(matches!(blocks.get(&path, 99), Residency::Resident(_)));
        for absent in [0, 6, 98, 100, u32::MAX] {
            assert!(matches!(blocks.get(&path, absent), Residency::Absent), "{absent}");
        }
        assert!(!blocks.take_mark(&path));
        blocks.mark(&path);
        assert!(blocks.take_mark(&path) && !blocks.take_mark(&path));
        assert!(!partial.is_empty() && blocks.remove(&path).is_some());
        assert!(matches!(blocks.get(&path, 70), Residency::Absent));
    }
}
