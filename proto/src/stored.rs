//! Stored content of one file: its loadable bytes, blocks, or all of it.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use headwater_abi::Attr;
use headwater_abi::wire::{Aspect, Digest, FileHead, block_count, block_range};

/// Bytes of a file: (offset, length).
type Range = (u64, u64);

#[derive(Clone, Debug)]
pub(crate) struct StoredContent {
    /// See [`FileHead::format`].
    pub(crate) format: u64,
    is_whole: bool,
    /// It is published that processes under audit read the file in the mount.
    pub(crate) is_in_mount: bool,
    /// Of the whole file.
    digest: Option<Digest>,
    /// The stored parts, if the file is or was stored in part. Most files are stored whole and have none.
    parts: Option<Box<Parts>>,
    /// Bytes of the store that are charged to it; they may be charged to another name of the same inode.
    pub(crate) bytes: u64,
    pub(crate) order: u64,
}

/// Parts of a file that are in the store.
#[derive(Clone, Debug, Default)]
struct Parts {
    /// Loadable bytes, if all of them are stored.
    loadable: Option<Arc<[Range]>>,
    /// Of the loadable bytes: children that receive these need it even when the whole file is stored.
    loadable_digest: Option<Digest>,
    /// One bit for each stored block.
    blocks: Vec<u64>,
    block_digests: BTreeMap<u32, Digest>,
}

impl StoredContent {
    /// Makes an empty record at this position in the eviction order.
    pub(crate) fn new(order: u64) -> StoredContent {
        StoredContent { format: 0, is_whole: false, is_in_mount: false, digest: None, parts: None, bytes: 0, order }
    }

    /// Notes that all bytes that `head` describes are stored.
    pub(crate) fn add(&mut self, aspect: Aspect, head: &FileHead) {
        match aspect {
            Aspect::Block(number) => {
                let (blocks, at) = (&mut self.parts.get_or_insert_default().blocks, number as usize / 64);
                if blocks.len() <= at {
                    blocks.resize(at + 1, 0);
                }
                blocks[at] |= 1 << (number % 64);
                if number == 0 {
                    self.format = head.format;
                }
            }
            _ if head.whole => {
                (self.is_whole, self.format, self.digest) = (true, head.format, None);
                if let Some(parts) = &mut self.parts {
                    (parts.loadable, parts.blocks) = (None, Vec::new());
                }
            }
            _ => {
                self.parts.get_or_insert_default().loadable = Some(head.ranges.clone());
                self.format = head.format;
            }
        }
    }

    pub(crate) fn set_digest(&mut self, aspect: Aspect, digest: Digest) {
        match aspect {
            Aspect::Block(number) => {
                self.parts.get_or_insert_default().block_digests.insert(number, digest);
            }
            Aspect::Loadable => self.parts.get_or_insert_default().loadable_digest = Some(digest),
            _ => self.digest = Some(digest),
        }
    }

    /// Returns the digest of stored content, if it is known.
    pub(crate) fn digest(&self, aspect: Aspect) -> Option<Digest> {
        match aspect {
            Aspect::Block(number) => self.parts.as_ref()?.block_digests.get(&number).copied(),
            Aspect::Loadable => self.parts.as_ref()?.loadable_digest,
            _ => self.digest,
        }
    }

    /// Removes a block that turned out to be missing.
    pub(crate) fn remove_block(&mut self, number: u32) {
        let Some(parts) = &mut self.parts else { return };
        parts.block_digests.remove(&number);
        if let Some(word) = parts.blocks.get_mut(number as usize / 64) {
            *word &= !(1 << (number % 64));
        }
    }

    /// Removes the blocks: they belong to another name's file.
    pub(crate) fn forget_blocks(&mut self) {
        if let Some(parts) = &mut self.parts {
            (parts.blocks, parts.block_digests) = (Vec::new(), BTreeMap::new());
        }
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.is_whole && self.loadable().is_none() && self.blocks().iter().all(|&word| word == 0)
    }

    pub(crate) fn covers(&self, aspect: Aspect) -> bool {
        self.is_whole
            || match aspect {
                Aspect::Loadable => self.loadable().is_some(),
                Aspect::Block(number) => self.has_block(number),
                _ => false,
            }
    }

    /// Returns whether all blocks of a file of `size` bytes are stored.
    pub(crate) fn has_all_blocks(&self, size: u64) -> bool {
        let count = block_count(size);
        count > 0 && self.blocks().iter().map(|word| word.count_ones()).sum::<u32>() == count
    }

    /// Returns the head of the stored content for `aspect`.
    pub(crate) fn head(&self, attr: Attr, aspect: Aspect) -> Option<FileHead> {
        if !self.covers(aspect) {
            return None;
        }
        let head = |ranges, whole| FileHead { attr, format: self.format, ranges, whole };
        match aspect {
            Aspect::Block(number) => head(Arc::from([]), false).block(number),
            _ if self.is_whole => Some(whole_head(attr, self.format)),
            _ => self.loadable().cloned().map(|ranges| head(ranges, false)),
        }
    }

    /// Returns one head of all that is stored, for the file's reader.
    pub(crate) fn summary(&self, attr: Attr) -> FileHead {
        if self.is_whole {
            return whole_head(attr, self.format);
        }
        FileHead { attr, format: self.format, ranges: self.ranges(attr.size).into(), whole: false }
    }

    /// Returns how many of the bytes that `head` describes are missing.
    pub(crate) fn missing_bytes(&self, head: &FileHead) -> u64 {
        if self.is_whole {
            return 0;
        }
        let stored = self.ranges(head.attr.size);
        let overlap = |&(offset, bytes): &Range| -> u64 { stored.iter().map(|&r| overlap(r, (offset, bytes))).sum() };
        head.content_bytes() - head.ranges.iter().map(overlap).sum::<u64>()
    }

    fn loadable(&self) -> Option<&Arc<[Range]>> {
        self.parts.as_ref()?.loadable.as_ref()
    }

    fn blocks(&self) -> &[u64] {
        self.parts.as_ref().map_or(&[], |parts| &parts.blocks)
    }

    fn has_block(&self, number: u32) -> bool {
        self.blocks().get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Returns the stored ranges, ascending, disjoint and not adjacent.
    fn ranges(&self, size: u64) -> Vec<Range> {
        let numbers = (0..self.blocks().len() as u32 * 64).filter(|&number| self.has_block(number));
        let blocks = numbers.filter_map(|number| block_range(size, number));
        let mut all: Vec<Range> =
            self.loadable().into_iter().flat_map(|ranges| ranges.iter().copied()).chain(blocks).collect();
        all.sort_unstable();
        let mut merged: Vec<Range> = Vec::with_capacity(all.len());
        for (offset, bytes) in all {
            match merged.last_mut() {
                Some(last) if last.0 + last.1 >= offset => last.1 = last.1.max(offset + bytes - last.0),
                _ => merged.push((offset, bytes)),
            }
        }
        merged
    }
}

pub(crate) fn whole_head(attr: Attr, format: u64) -> FileHead {
    let ranges: &[Range] = if attr.size > 0 { &[(0, attr.size)] } else { &[] };
    FileHead { attr, format, ranges: Arc::from(ranges), whole: true }
}

fn overlap(a: Range, b: Range) -> u64 {
    (a.0 + a.1).min(b.0 + b.1).saturating_sub(a.0.max(b.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_abi::wire::BLOCK_BYTES;

    const MIB: u64 = BLOCK_BYTES / 4;

    #[test]
    fn overlapping_ranges_are_counted_once() {
        let attr = Attr { size: 2 * BLOCK_BYTES + MIB, ..Attr::default() };
        let all = whole_head(attr, 0);
        let loadable: Arc<[Range]> = [(0, MIB), (BLOCK_BYTES, MIB), (2 * BLOCK_BYTES, MIB)].into();
        let loadable = FileHead { ranges: loadable, whole: false, ..all.clone() };
        let mut stored = StoredContent::new(7);
        assert_eq!((stored.missing_bytes(&all), stored.is_empty()), (attr.size, true));
        stored.add(Aspect::Loadable, &loadable);
        assert_eq!(stored.missing_bytes(&all), attr.size - 3 * MIB);
        assert_eq!(stored.missing_bytes(&all.block(1).unwrap()), BLOCK_BYTES - MIB);
        stored.add(Aspect::Block(1), &all.block(1).unwrap());
        assert_eq!(*stored.summary(attr).ranges, [(0, MIB), (BLOCK_BYTES, BLOCK_BYTES + MIB)]);
        assert_eq!((stored.missing_bytes(&all), stored.missing_bytes(&loadable)), (BLOCK_BYTES - MIB, 0));
        assert!(stored.covers(Aspect::Loadable) && stored.covers(Aspect::Block(1)));
        assert!(!stored.covers(Aspect::Block(0)) && !stored.covers(Aspect::Whole) && !stored.has_all_blocks(attr.size));
        (0..3).for_each(|number| stored.add(Aspect::Block(number), &all.block(number).unwrap()));
        assert!(stored.has_all_blocks(attr.size));
        stored.remove_block(2);
        assert!(!stored.has_all_blocks(attr.size) && !stored.covers(Aspect::Block(2)));
        stored.add(Aspect::Whole, &all);
        assert_eq!((stored.missing_bytes(&all), stored.head(attr, Aspect::Loadable)), (0, Some(all.clone())));
        assert_eq!(stored.head(attr, Aspect::Block(2)), all.block(2));
    }
}
