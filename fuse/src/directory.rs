//! The reply to READDIR and READDIRPLUS.

use zerocopy::IntoBytes;

use crate::Entry;
use crate::wire::{DIRENT_ALIGN, Dirent, EntryOut};

/// The bytes of READDIR's or READDIRPLUS's reply, filled up to a size.
#[derive(Debug)]
pub struct Directory {
    bytes: Vec<u8>,
    bytes_max: usize,
    plus: bool,
}

impl Directory {
    /// Makes an empty reply of at most `bytes_max` bytes, with `plus` to READDIRPLUS.
    pub fn new(bytes_max: usize, plus: bool) -> Directory {
        Directory { bytes: Vec::new(), bytes_max, plus }
    }

    /// Adds a name. `next`: the offset behind it. False, and no change, if it does not fit. In a reply to READDIRPLUS
    /// without an entry (`.`, `..`, or an unknown node), the kernel takes the name alone, and no look-up counts.
    pub fn name(&mut self, ino: u64, next: u64, d_type: u8, name: &[u8], entry: Option<&Entry>) -> bool {
        let entry = entry.map_or_else(EntryOut::default, Entry::encode);
        let entry = if self.plus { entry.as_bytes() } else { &[] };
        let bytes = (entry.len() + size_of::<Dirent>() + name.len()).next_multiple_of(DIRENT_ALIGN);
        let end = self.bytes.len() + bytes;
        if end > self.bytes_max {
            return false;
        }
        let dirent = Dirent { ino, off: next, namelen: name.len() as u32, kind: u32::from(d_type) };
        self.bytes.reserve_exact(if self.bytes.is_empty() { self.bytes_max } else { 0 });
        for part in [entry, dirent.as_bytes(), name] {
            self.bytes.extend_from_slice(part);
        }
        self.bytes.resize(end, 0);
        true
    }

    /// Returns the bytes for [`Reply::data`](crate::Reply::data).
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zerocopy::FromBytes;

    use super::*;
    use crate::NodeId;

    /// Takes one name off the front: (node of its entry, inode, offset after it, type, name).
    fn take(bytes: &mut &[u8], is_plus: bool) -> (u64, u64, u64, u32, Vec<u8>) {
        let start = *bytes;
        let mut node = 0;
        if is_plus {
            let (entry, rest) = EntryOut::read_from_prefix(bytes).unwrap();
            (node, *bytes) = (entry.nodeid, rest);
        }
        let (dirent, rest) = Dirent::read_from_prefix(bytes).unwrap();
        let name = rest[..dirent.namelen as usize].to_vec();
        let taken = start.len() - rest.len() + name.len();
        *bytes = &start[taken.next_multiple_of(8)..];
        (node, dirent.ino, dirent.off, dirent.kind, name)
    }

    proptest! {
        #[test]
        fn names_round_trip(
            names in prop::collection::vec(prop::collection::vec(1u8.., 1..256), 0..30),
            is_plus: bool,
            bytes_max in 0usize..4096,
        ) {
            let mut directory = Directory::new(bytes_max, is_plus);
            let node = |at: u64| at.is_multiple_of(2).then_some(NodeId(at + 2));
            let entry = |at| Entry {
                node: node(at),
                attr: headwater_abi::Attr::default(),
                entry_ttl: crate::reply::FOREVER,
                attr_ttl: crate::reply::FOREVER,
            };
            let added = (0..).zip(&names).take_while(|&(at, name)| {
                directory.name(at, at + 1, 8, name, node(at).map(|_| entry(at)).as_ref())
            });
            let added = added.count();
            prop_assert!(directory.as_bytes().len() <= bytes_max);
            prop_assert_eq!(directory.as_bytes().is_empty(), added == 0);
            let mut bytes = directory.as_bytes();
            for (at, name) in (0..).zip(&names[..added]) {
                let expected = (if is_plus { node(at).map_or(0, |n| n.0) } else { 0 }, at, at + 1, 8, name.clone());
                prop_assert_eq!(take(&mut bytes, is_plus), expected);
            }
            prop_assert!(bytes.is_empty());
            if let Some(next) = names.get(added) {
                let bytes = (24 + if is_plus { 128 } else { 0 } + next.len()).next_multiple_of(8);
                prop_assert!(directory.as_bytes().len() + bytes > bytes_max, "it would have fitted");
            }
        }
    }
}
