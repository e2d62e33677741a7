//! Released space of the heap.

use alloc::collections::{BTreeMap, BTreeSet};

/// Free extents, in bytes; neighbours are joined. An allocation takes the smallest that suffices, and the
/// rest stays free.
#[derive(Debug, Default)]
pub(super) struct Free {
    by_place: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
}

impl Free {
    /// Releases `bytes` at `at`.
    pub(super) fn add(&mut self, mut at: u64, mut bytes: u64) {
        if bytes == 0 {
            return;
        }
        if let Some((&before, &size)) = self.by_place.range(..at).next_back()
            && before + size == at
        {
            self.remove(before, size);
            (at, bytes) = (before, bytes + size);
        }
        if let Some(&size) = self.by_place.get(&(at + bytes)) {
            self.remove(at + bytes, size);
            bytes += size;
        }
        self.by_place.insert(at, bytes);
        self.by_size.insert((bytes, at));
    }

    /// Allocates `bytes`; `None` if no extent is large enough.
    pub(super) fn take(&mut self, bytes: u64) -> Option<u64> {
        let &(size, at) = self.by_size.range((bytes, 0)..).next()?;
        self.remove(at, size);
        self.add(at + bytes, size - bytes);
        Some(at)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.by_place.values().sum()
    }

    fn remove(&mut self, at: u64, bytes: u64) {
        self.by_place.remove(&at);
        self.by_size.remove(&(bytes, at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined_and_the_smallest_that_suffices_is_taken() {
        let mut free = Free::default();
        assert_eq!(free.take(8), None);
        [(100, 8), (116, 8), (108, 8), (200, 16)].into_iter().for_each(|(at, bytes)| free.add(at, bytes));
        assert_eq!(free.bytes(), 40);
        assert_eq!(free.take(17), Some(100), "three that were joined");
        assert_eq!(free.take(16), Some(200));
        assert_eq!(free.take(8), None);
        assert_eq!((free.take(7), free.bytes()), (Some(117), 0));
    }
}
