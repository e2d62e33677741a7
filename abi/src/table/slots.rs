//! The slots that lead from a hash to a record: open addressing with a bounded search.

use super::layout::PROBES_MAX;
use super::sync::{AtomicU64, Ordering};
use crate::hash;

/// A slot whose record was removed: no tag is zero, so no search takes it for a record, and each continues
/// behind it.
pub(super) const VACATED: u64 = 1;

/// Returns the slot of a record that no search may find any more, but whose number stays in use.
pub(super) fn retired(record: usize) -> u64 {
    record as u64
}

/// Slots: `count`, a power of two, from the word `base` on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slots {
    pub(super) base: usize,
    pub(super) count: u64,
}

impl Slots {
    /// Returns the slots of a hash, in the order of a search.
    pub(super) fn places(self, hash: u64) -> impl Iterator<Item = usize> {
        (0..PROBES_MAX.min(self.count)).map(move |probe| self.place(hash.wrapping_add(probe)))
    }

    /// Returns the record number in the first slot with the hash's tag that `matches` accepts.
    pub(super) fn find(self, words: &[AtomicU64], hash: u64, matches: impl Fn(usize) -> bool) -> Option<usize> {
        for place in self.places(hash) {
            let slot = words[place].load(Ordering::Acquire);
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

    /// Returns every slot's record number and tag.
    pub(super) fn all(self, words: &[AtomicU64]) -> impl Iterator<Item = (usize, u32)> {
        let slots = &words[self.base..self.base + self.count as usize];
        let parts = |slot: u64| (slot as u32 as usize, (slot >> 32) as u32);
        slots.iter().map(move |slot| parts(slot.load(Ordering::Acquire))).filter(|(_, tag)| *tag != 0)
    }

    /// Returns the slot that a search visits after this one.
    pub(super) fn after(self, place: usize) -> usize {
        self.place((place - self.base) as u64 + 1)
    }

    /// Returns the slot that a search visits before this one.
    pub(super) fn before(self, place: usize) -> usize {
        self.place(((place - self.base) as u64).wrapping_sub(1))
    }

    fn place(self, number: u64) -> usize {
        self.base + (number & (self.count - 1)) as usize
    }
}
