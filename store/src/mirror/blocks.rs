//! The resident blocks of partial files.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use headwater_abi::Path;
use headwater_abi::wire::block_count;

/// The partial files.
#[derive(Debug, Default)]
pub struct Blocks {
    pub(super) files: RwLock<HashMap<Path, Arc<Partial>>>,
    /// The number of files, so that most readers need no lock.
    pub(super) count: AtomicUsize,
    /// Marked whole files, whose reads are reported.
    pub(super) marks: Mutex<HashSet<Path>>,
    pub(super) mark_count: AtomicUsize,
    /// Blocks that were read from source files.
    direct: Mutex<HashMap<Path, BTreeSet<u32>>>,
}

/// Whole files that are marked at once.
const MARKS_MAX: usize = 4096;

/// A sparse copy.
#[derive(Debug)]
pub struct Partial {
    pub(super) copy: File,
    pub(super) state: PartialState,
}

/// What is known of a sparse copy, open or closed.
#[derive(Debug)]
pub(super) struct PartialState {
    /// A bit for each block.
    resident: Box<[AtomicU64]>,
    marked: Box<[AtomicU64]>,
    /// True if the copy had other content before.
    is_older: bool,
}

/// Whether a block is in the store.
#[derive(Clone, Debug)]
pub enum Residency {
    /// It is not.
    Absent,
    /// It is, in this copy.
    Resident(Arc<Partial>),
    /// The same, for the first read of a marked block, which must be reported to the node.
    Marked(Arc<Partial>),
}

impl Blocks {
    /// Returns whether a block is in the store.
    pub fn get(&self, path: &Path, block: u32) -> Residency {
        if self.count.load(Ordering::Acquire) == 0 {
            return Residency::Absent;
        }
        let file = self.files.read().unwrap_or_else(PoisonError::into_inner).get(path).map(Arc::clone);
        match file {
            Some(file) if !file.has(block) => Residency::Absent,
            Some(file) if take(&file.state.marked, block) => Residency::Marked(file),
            Some(file) => Residency::Resident(file),
            None => Residency::Absent,
        }
    }

    /// Returns the copy that has a block; its mark stays.
    pub fn resident(&self, path: &Path, block: u32) -> Option<Arc<Partial>> {
        self.partial(path).filter(|file| file.has(block))
    }

    /// Returns true if any block of this file is in the store.
    pub fn has_any(&self, path: &Path) -> bool {
        self.partial(path).is_some_and(|file| file.state.resident.iter().any(|word| word.load(Ordering::Acquire) != 0))
    }

    /// Notes that blocks were read from the source file, and not stored.
    pub fn note_direct(&self, path: &Path, blocks: RangeInclusive<u32>) {
        let mut direct = self.direct.lock().unwrap_or_else(PoisonError::into_inner);
        match direct.get_mut(path) {
            Some(noted) => noted.extend(blocks),
            None => drop(direct.insert(path.clone(), blocks.collect())),
        }
    }

    /// Returns the numbers of the file's blocks that processes requested or read, ascending.
    pub fn used(&self, path: &Path) -> Vec<u32> {
        let mut all = self.direct.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned().unwrap_or_default();
        all.extend(self.used_in_store(path));
        all.into_iter().collect()
    }

    fn used_in_store(&self, path: &Path) -> Vec<u32> {
        let Some(file) = self.partial(path) else { return Vec::new() };
        let words = file.state.resident.iter().zip(&file.state.marked);
        let used = words.map(|(resident, marked)| resident.load(Ordering::Acquire) & !marked.load(Ordering::Relaxed));
        let numbers =
            |(word, bits): (u32, u64)| (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| 64 * word + bit);
        (0..).zip(used).flat_map(numbers).collect()
    }

    /// Clears a whole file's mark. Returns true if it was set: then the read must be reported to the node.
    pub fn take_mark(&self, path: &Path) -> bool {
        if self.mark_count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let was_marked = marks.remove(path);
        self.mark_count.store(marks.len(), Ordering::Relaxed);
        was_marked
    }

    /// Marks a whole file, whose first read will be reported.
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
    /// Creates the state of a file of `size` bytes without resident blocks. With `is_older` the copy has other content
    /// already.
    pub(super) fn new(copy: File, size: u64, is_older: bool) -> Partial {
        let words = block_count(size).div_ceil(64) as usize;
        let none = || (0..words).map(|_| AtomicU64::new(0)).collect();
        Partial { copy, state: PartialState { resident: none(), marked: none(), is_older } }
    }

    /// Returns true if the copy was created for blocks.
    pub(super) fn is_new(&self) -> bool {
        !self.state.is_older
    }

    /// Returns the open sparse copy. A resident block is at its offset in the file.
    pub fn copy(&self) -> &File {
        &self.copy
    }

    /// Adds a complete block.
    pub(super) fn add(&self, block: u32, is_marked: bool) {
        if is_marked {
            set(&self.state.marked, block);
        }
        set(&self.state.resident, block);
    }

    /// Returns true without resident blocks.
    pub(super) fn is_empty(&self) -> bool {
        self.state.resident.iter().all(|word| word.load(Ordering::Relaxed) == 0)
    }

    pub(super) fn has(&self, block: u32) -> bool {
        let word = self.state.resident.get(block as usize / 64);
        word.is_some_and(|word| word.load(Ordering::Acquire) >> (block % 64) & 1 == 1)
    }
}

fn set(words: &[AtomicU64], block: u32) {
    if let Some(word) = words.get(block as usize / 64) {
        word.fetch_or(1 << (block % 64), Ordering::Release);
    }
}

/// Clears a bit. Returns true if it was set.
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
    fn a_mark_is_reported_once() {
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
