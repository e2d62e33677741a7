//! A directory's names in the table, without a copy: reading one of them, by number or by name, costs a few
//! loads however many there are. The form is [`crate::listing`]'s.

use alloc::vec::Vec;

use super::sync::{AtomicU64, Ordering};
use crate::hash;
use crate::listing::{ENTRY_BYTES, HEADER_BYTES, is_index};

/// A complete listing in the table.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    words: &'a [AtomicU64],
    bytes: usize,
    count: usize,
    slots: usize,
}

/// One name in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// Inode number as returned by `getdents64`.
    pub ino: u64,
    /// `DT_DIR`, `DT_REG`, … or `DT_UNKNOWN`.
    pub d_type: u8,
}

impl<'a> Names<'a> {
    /// Returns the listing in the first `bytes` bytes of `words`; `None` if its header does not fit.
    pub fn new(words: &'a [AtomicU64], bytes: usize) -> Option<Names<'a>> {
        let header = words.first()?.load(Ordering::Relaxed);
        let (count, slots) = (header as u32 as usize, (header >> 32) as usize);
        let names = Names { words, bytes, count, slots };
        let is_sound = is_index(slots) && names.entry_at(count)? <= bytes && bytes <= words.len() * 8;
        is_sound.then_some(names)
    }

    /// Returns the number of names, `.` and `..` included.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Reads the name with this number, in the directory's order, into `name`. `None` behind the last one, or
    /// if the listing is damaged.
    pub fn get(&self, number: usize, name: &mut Vec<u8>) -> Option<Named> {
        let (at, bytes, named) = self.entry(number)?;
        name.clear();
        name.extend((at..at + bytes).map(|at| self.byte(at)));
        Some(named)
    }

    /// Looks up `name`: `Some(None)` if there is no such name, `None` if the listing is damaged.
    pub fn find(&self, name: &[u8]) -> Option<Option<Named>> {
        let mut slot = hash::bytes(name) as usize & (self.slots - 1);
        for _ in 0..self.slots {
            let number = self.half(HEADER_BYTES + slot * 4)? as usize;
            if number == 0 {
                return Some(None);
            }
            let (at, bytes, named) = self.entry(number - 1)?;
            if bytes == name.len() && name.iter().enumerate().all(|(n, &byte)| self.byte(at + n) == byte) {
                return Some(Some(named));
            }
            slot = (slot + 1) & (self.slots - 1);
        }
        None
    }

    /// Returns the offset and length of the name with this number, and the name's entry.
    fn entry(&self, number: usize) -> Option<(usize, usize, Named)> {
        if number >= self.count {
            return None;
        }
        let at = self.entry_at(number)?;
        let ino = u64::from(self.half(at)?) | u64::from(self.half(at + 4)?) << 32;
        let (name_at, rest) = (self.half(at + 8)? as usize, self.half(at + 12)?);
        let name_bytes = rest as u16 as usize;
        let fits = name_at.checked_add(name_bytes)? <= self.bytes;
        fits.then_some((name_at, name_bytes, Named { ino, d_type: (rest >> 16) as u8 }))
    }

    fn entry_at(&self, number: usize) -> Option<usize> {
        self.slots.checked_mul(4)?.checked_add(HEADER_BYTES)?.checked_add(number.checked_mul(ENTRY_BYTES)?)
    }

    /// Returns the four bytes at `at`, a multiple of four.
    fn half(&self, at: usize) -> Option<u32> {
        if at + 4 > self.bytes {
            return None;
        }
        Some((self.words[at / 8].load(Ordering::Relaxed) >> (at % 8 * 8)) as u32)
    }

    /// Returns the byte at `at`, which is inside.
    fn byte(&self, at: usize) -> u8 {
        (self.words[at / 8].load(Ordering::Relaxed) >> (at % 8 * 8)) as u8
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::listing::{Builder, Listing, Name, d_type};

    fn words(blob: &[u8]) -> Vec<AtomicU64> {
        let word = |chunk: &[u8]| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            AtomicU64::new(u64::from_le_bytes(word))
        };
        blob.chunks(8).map(word).collect()
    }

    fn listing(count: u64) -> Listing {
        let mut builder = Builder::default();
        for n in 0..count {
            let d_type = if n.is_multiple_of(3) { d_type::DIR } else { d_type::FILE };
            let name = alloc::format!("{n}{}", "x".repeat(n as usize % 20));
            assert!(builder.push(Name { ino: n << 33 | 7, d_type, name: name.as_bytes() }));
        }
        builder.finish()
    }

    #[test]
    fn every_name_is_found_by_number_and_by_name() {
        let (listing, mut name) = (listing(1000), Vec::new());
        let blob = listing.blob();
        let words = words(blob);
        let names = Names::new(&words, blob.len()).unwrap();
        assert_eq!((names.len(), names.is_empty()), (1000, false));
        for (number, entry) in listing.iter().enumerate() {
            let named = Named { ino: entry.ino, d_type: entry.d_type };
            assert_eq!((names.get(number, &mut name), &name[..]), (Some(named), entry.name));
            assert_eq!(names.find(entry.name), Some(Some(named)));
        }
        assert_eq!((names.get(1000, &mut name), names.find(b"1000")), (None, Some(None)));
        let empty = self::words(Listing::default().blob());
        assert_eq!(Names::new(&empty, 16).map(|names| names.find(b"x")), Some(Some(None)));
    }

    #[test]
    fn damage_is_noticed() {
        let listing = listing(20);
        let blob = listing.blob();
        let sound = words(blob);
        assert!(Names::new(&sound, 100).is_none() && Names::new(&sound[..4], blob.len()).is_none());
        for (at, word) in sound.iter().enumerate() {
            let before = word.swap(u64::MAX, Ordering::Relaxed);
            if let Some(names) = Names::new(&sound, blob.len()) {
                let mut name = Vec::new();
                for number in 0..25 {
                    let _ = (names.get(number, &mut name), names.find(b"5xxxxx"));
                }
            } else {
                assert_eq!(at, 0);
            }
            word.store(before, Ordering::Relaxed);
        }
        for slots in [0, 1, 3] {
            sound[0].store(slots << 32 | 1, Ordering::Relaxed);
            assert!(Names::new(&sound, blob.len()).is_none(), "{slots} slots");
        }
    }
}
