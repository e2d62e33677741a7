//! A directory's listing, and its form in the shared table.
//!
//! The blob is `count: u32, index_slots: u32`, then `index_slots` words of four bytes (zero or an
//! entry's number plus one, open addressing by the low bits of [`hash::bytes`] of the name, at most
//! half full), then `count` entries of 16 bytes (`ino: u64, name_offset: u32, name_bytes: u16,
//! d_type: u8, 0`), then the names, each with a NUL. Offsets count from the blob's start. Entries
//! stand in the order in which the original directory gave them, `.` and `..` included.

use alloc::boxed::Box;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::hash;

/// One name of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Name {
    /// Inode number as `getdents64` gave it.
    pub ino: u64,
    /// `DT_DIR`, `DT_REG`, … or `DT_UNKNOWN`.
    pub d_type: u8,
    /// The name's bytes, without NUL.
    pub name: Box<[u8]>,
}

/// All names of a directory, in the original's order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// The names, `.` and `..` included.
    pub names: Vec<Name>,
}

/// `d_type` values.
#[allow(missing_docs)]
pub mod d_type {
    pub const UNKNOWN: u8 = 0;
    pub const DIR: u8 = 4;
    pub const FILE: u8 = 8;
    pub const LINK: u8 = 10;
}

/// Names above which a directory is not listed; each of its names is then looked up by itself.
pub const LISTING_NAMES_MAX: usize = 1 << 18;
/// Bytes of names above which a directory is not listed.
pub const LISTING_BYTES_MAX: usize = 6 << 20;

const HEADER_BYTES: usize = 8;
const ENTRY_BYTES: usize = 16;

impl Listing {
    /// The table's form of this listing.
    pub fn to_blob(&self) -> Vec<u8> {
        let count = self.names.len();
        let slots = (count * 2).next_power_of_two().max(2);
        let entries_at = HEADER_BYTES + slots * 4;
        let names_at = entries_at + count * ENTRY_BYTES;
        let names_bytes: usize = self.names.iter().map(|n| n.name.len() + 1).sum();
        let mut blob = alloc::vec![0u8; names_at + names_bytes];
        blob[..4].copy_from_slice(&(count as u32).to_le_bytes());
        blob[4..8].copy_from_slice(&(slots as u32).to_le_bytes());
        let mut name_at = names_at;
        for (number, entry) in self.names.iter().enumerate() {
            insert(&mut blob[HEADER_BYTES..entries_at], hash::bytes(&entry.name), number as u32 + 1);
            let at = entries_at + number * ENTRY_BYTES;
            blob[at..at + 8].copy_from_slice(&entry.ino.to_le_bytes());
            blob[at + 8..at + 12].copy_from_slice(&(name_at as u32).to_le_bytes());
            blob[at + 12..at + 14].copy_from_slice(&(entry.name.len() as u16).to_le_bytes());
            blob[at + 14] = entry.d_type;
            blob[name_at..name_at + entry.name.len()].copy_from_slice(&entry.name);
            name_at += entry.name.len() + 1;
        }
        blob
    }

    /// The entry called `name`.
    pub fn find(&self, name: &[u8]) -> Option<&Name> {
        self.names.iter().find(|n| *n.name == *name)
    }
}

/// Looks `name` up in a blob. `None` if the blob is damaged, `Some(None)` if the name is not in it,
/// otherwise its `d_type`.
pub fn find_in_blob(blob: &[u8], name: &[u8]) -> Option<Option<u8>> {
    let word = |at: usize| Some(u32::from_le_bytes(blob.get(at..at + 4)?.try_into().ok()?));
    let slots = word(4)? as usize;
    if !slots.is_power_of_two() {
        return None;
    }
    let entries_at = slots.checked_mul(4)?.checked_add(HEADER_BYTES)?;
    let mut slot = hash::bytes(name) as usize & (slots - 1);
    for _ in 0..slots {
        let number = word(HEADER_BYTES + slot * 4)? as usize;
        if number == 0 {
            return Some(None);
        }
        let at = (number - 1).checked_mul(ENTRY_BYTES)?.checked_add(entries_at)?;
        let name_at = word(at + 8)? as usize;
        let bytes = u16::from_le_bytes(blob.get(at + 12..at + 14)?.try_into().ok()?) as usize;
        if blob.get(name_at..name_at.checked_add(bytes)?)? == name {
            return Some(Some(*blob.get(at + 14)?));
        }
        slot = (slot + 1) & (slots - 1);
    }
    None
}

fn insert(index: &mut [u8], hash: u64, value: u32) {
    let slots = index.len() / 4;
    let mut slot = hash as usize & (slots - 1);
    while index[slot * 4..slot * 4 + 4] != [0; 4] {
        slot = (slot + 1) & (slots - 1);
    }
    index[slot * 4..slot * 4 + 4].copy_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_no_other() {
        let listing = Listing {
            names: (0..1000)
                .map(|n| Name { ino: n, d_type: d_type::FILE, name: alloc::format!("lib{n}.so").into_bytes().into() })
                .collect(),
        };
        let blob = listing.to_blob();
        for entry in &listing.names {
            assert_eq!(find_in_blob(&blob, &entry.name), Some(Some(d_type::FILE)));
        }
        assert_eq!(find_in_blob(&blob, b"lib1000.so"), Some(None));
        assert_eq!(find_in_blob(&Listing::default().to_blob(), b"x"), Some(None));
        assert_eq!(find_in_blob(&blob[..50], b"lib7.so"), None);
    }
}
