//! A directory's listing, and its form in the shared table.
//!
//! The blob is `count: u32, index_slots: u32`, then `index_slots` words of four bytes, a power of two
//! and not one (zero or an entry's number plus one, open addressing by the low bits of
//! [`hash::bytes`] of the name, at most half full), then `count` entries of 16 bytes (`ino: u64,
//! name_offset: u32, name_bytes: u16, d_type: u8, 0`), then the names, each with a NUL. Offsets count
//! from the blob's start. Entries stand in the order in which the original directory gave them, `.`
//! and `..` included.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::hash;

/// One name of a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name<'a> {
    /// Inode number as returned by `getdents64`.
    pub ino: u64,
    /// `DT_DIR`, `DT_REG`, … or `DT_UNKNOWN`.
    pub d_type: u8,
    /// The name's bytes, without NUL.
    pub name: &'a [u8],
}

/// All names of a directory, in its own order, `.` and `..` included, in the form of the table. Clones share
/// it.
#[derive(Clone, PartialEq, Eq)]
pub struct Listing {
    blob: Arc<[u8]>,
}

/// A listing under construction.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    /// Entries in the form of the blob, but for the names' offsets.
    entries: Vec<u8>,
    names: Vec<u8>,
}

/// `d_type` values.
#[allow(missing_docs)]
pub mod d_type {
    pub const UNKNOWN: u8 = 0;
    pub const DIR: u8 = 4;
    pub const FILE: u8 = 8;
    pub const LINK: u8 = 10;
}

/// Names above which a directory is not listed; each of its names is then looked up singly.
pub const LISTING_NAMES_MAX: usize = 1 << 18;
/// Bytes of names, each with a NUL, above which a directory is not listed.
pub const LISTING_BYTES_MAX: usize = 6 << 20;

pub(crate) const HEADER_BYTES: usize = 8;
pub(crate) const ENTRY_BYTES: usize = 16;
/// Aligns the entries to eight bytes.
const INDEX_SLOTS_MIN: usize = 2;

/// Returns whether an index may have so many slots.
pub(crate) fn is_index(slots: usize) -> bool {
    slots >= INDEX_SLOTS_MIN && slots.is_power_of_two()
}

impl Builder {
    /// Adds a name behind the others. False, and no change, if the listing has no room for it.
    pub fn push(&mut self, name: Name<'_>) -> bool {
        let (name_at, bytes) = (self.names.len(), name.name.len());
        let has_room = self.len() < LISTING_NAMES_MAX && name_at + bytes < LISTING_BYTES_MAX;
        let Ok(name_bytes) = u16::try_from(bytes) else { return false };
        if !has_room {
            return false;
        }
        self.entries.extend_from_slice(&name.ino.to_le_bytes());
        self.entries.extend_from_slice(&(name_at as u32).to_le_bytes());
        self.entries.extend_from_slice(&name_bytes.to_le_bytes());
        self.entries.extend_from_slice(&[name.d_type, 0]);
        self.names.extend_from_slice(name.name);
        self.names.push(0);
        true
    }

    /// Returns the listing of the added names.
    pub fn finish(mut self) -> Listing {
        let count = self.len();
        let slots = (count * 2).next_power_of_two().max(INDEX_SLOTS_MIN);
        let entries_at = HEADER_BYTES + slots * 4;
        let names_at = entries_at + self.entries.len();
        let mut blob = Vec::with_capacity(names_at + self.names.len());
        blob.extend_from_slice(&(count as u32).to_le_bytes());
        blob.extend_from_slice(&(slots as u32).to_le_bytes());
        blob.resize(entries_at, 0);
        for (number, entry) in self.entries.chunks_exact_mut(ENTRY_BYTES).enumerate() {
            let (name_at, bytes) = place(entry);
            insert(&mut blob[HEADER_BYTES..], slots, hash::bytes(&self.names[name_at..][..bytes]), number as u32 + 1);
            entry[8..12].copy_from_slice(&((names_at + name_at) as u32).to_le_bytes());
        }
        blob.extend_from_slice(&self.entries);
        blob.extend_from_slice(&self.names);
        Listing { blob: blob.into() }
    }

    fn len(&self) -> usize {
        self.entries.len() / ENTRY_BYTES
    }
}

impl Listing {
    /// Returns the table's form of this listing.
    pub fn blob(&self) -> &[u8] {
        &self.blob
    }

    /// Returns the number of names.
    pub fn len(&self) -> usize {
        self.word(0)
    }

    /// Returns whether there is no name.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the name with this number, counted from zero in the directory's order.
    pub fn get(&self, number: usize) -> Option<Name<'_>> {
        (number < self.len()).then(|| self.entry(number))
    }

    /// Returns all names.
    pub fn iter(&self) -> impl Iterator<Item = Name<'_>> {
        (0..self.len()).map(|number| self.entry(number))
    }

    /// Returns the number of the entry called `name`, and the entry.
    pub fn find(&self, name: &[u8]) -> Option<(usize, Name<'_>)> {
        let slots = self.word(4);
        let mut slot = hash::bytes(name) as usize & (slots - 1);
        loop {
            let number = self.word(HEADER_BYTES + slot * 4).checked_sub(1)?;
            let entry = self.entry(number);
            if entry.name == name {
                return Some((number, entry));
            }
            slot = (slot + 1) & (slots - 1);
        }
    }

    fn entry(&self, number: usize) -> Name<'_> {
        let at = HEADER_BYTES + self.word(4) * 4 + number * ENTRY_BYTES;
        let entry = &self.blob[at..at + ENTRY_BYTES];
        let (name_at, bytes) = place(entry);
        let ino = entry.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        Name { ino, d_type: entry[14], name: &self.blob[name_at..name_at + bytes] }
    }

    fn word(&self, at: usize) -> usize {
        half(&self.blob, at)
    }
}

impl Default for Listing {
    fn default() -> Listing {
        Builder::default().finish()
    }
}

impl<'a> FromIterator<Name<'a>> for Listing {
    /// Makes a listing of these names; those for which it has no room are left out.
    fn from_iter<I: IntoIterator<Item = Name<'a>>>(names: I) -> Listing {
        let mut builder = Builder::default();
        for name in names {
            builder.push(name);
        }
        builder.finish()
    }
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {:?}", self.ino, self.d_type, alloc::string::String::from_utf8_lossy(self.name))
    }
}

/// In messages a listing is its names alone; the receiver makes the index.
impl Serialize for Listing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut names = serializer.serialize_seq(Some(self.len()))?;
        for Name { ino, d_type, name } in self.iter() {
            names.serialize_element(&(ino, d_type, Bytes(name)))?;
        }
        names.end()
    }
}

impl<'de> Deserialize<'de> for Listing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Listing, D::Error> {
        deserializer.deserialize_seq(Names)
    }
}

struct Names;

impl<'de> Visitor<'de> for Names {
    type Value = Listing;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the names of a directory")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<Listing, A::Error> {
        let mut builder = Builder::default();
        while let Some((ino, d_type, name)) = names.next_element::<(u64, u8, &'de [u8])>()? {
            if !builder.push(Name { ino, d_type, name }) {
                return Err(A::Error::custom("too many names, or too long ones"));
            }
        }
        Ok(builder.finish())
    }
}

struct Bytes<'a>(&'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

/// Returns where an entry's name begins, and its length.
fn place(entry: &[u8]) -> (usize, usize) {
    (half(entry, 8), half(entry, 12) & 0xffff)
}

fn half(bytes: &[u8], at: usize) -> usize {
    bytes[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word) as usize)
}

fn insert(index: &mut [u8], slots: usize, hash: u64, value: u32) {
    let mut slot = hash as usize & (slots - 1);
    while index[slot * 4..slot * 4 + 4] != [0; 4] {
        slot = (slot + 1) & (slots - 1);
    }
    index[slot * 4..slot * 4 + 4].copy_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    fn listing(names: &[String]) -> Listing {
        let name = |(ino, name): (usize, &'_ String)| (ino as u64, name.clone());
        let names: Vec<(u64, String)> = names.iter().enumerate().map(name).collect();
        names.iter().map(|(ino, name)| Name { ino: *ino, d_type: d_type::FILE, name: name.as_bytes() }).collect()
    }

    #[test]
    fn every_name_is_found_and_no_other() {
        let names: Vec<String> = (0..1000).map(|n| alloc::format!("lib{n}.so")).collect();
        let listing = listing(&names);
        assert_eq!(listing.len(), 1000);
        for (number, name) in names.iter().enumerate() {
            let expected = Name { ino: number as u64, d_type: d_type::FILE, name: name.as_bytes() };
            assert_eq!(listing.find(name.as_bytes()), Some((number, expected)));
            assert_eq!(listing.get(number), Some(expected));
        }
        assert_eq!((listing.find(b"lib1000.so"), listing.get(1000)), (None, None));
        assert_eq!((Listing::default().find(b""), Listing::default().is_empty()), (None, true));
    }

    #[test]
    fn it_travels_as_its_names() {
        let names: Vec<String> = (0..100).map(|n| alloc::format!("n{n}")).collect();
        let listing = listing(&names);
        let bytes = postcard::to_allocvec(&listing).unwrap();
        assert!(bytes.len() < 100 * 7 && listing.blob().len() > 100 * 20);
        assert_eq!(postcard::from_bytes(&bytes), Ok(listing));
        assert!(postcard::from_bytes::<Listing>(&bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn what_is_beyond_its_bounds_is_refused() {
        let mut builder = Builder::default();
        let long = alloc::vec![b'x'; usize::from(u16::MAX) + 1];
        assert!(!builder.push(Name { ino: 1, d_type: 0, name: &long }));
        let name = Name { ino: 1, d_type: 0, name: &long[1..] };
        while builder.push(name) {}
        assert_eq!(builder.len(), LISTING_BYTES_MAX / (1 << 16));
        let mut builder = Builder::default();
        while builder.push(Name { ino: 1, d_type: 0, name: b"" }) {}
        assert_eq!(builder.len(), LISTING_NAMES_MAX);
        let nothing = (0u64, 0u8, &b""[..]);
        let bytes = postcard::to_allocvec(&alloc::vec![nothing; LISTING_NAMES_MAX + 1]).unwrap();
        assert!(postcard::from_bytes::<Listing>(&bytes).is_err());
    }
}
