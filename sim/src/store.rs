//! The model of one node's store: which bytes of which file are there.

use std::collections::BTreeMap;

use headwater_abi::Path;
use headwater_abi::wire::FileHead;

use crate::reader::Piece;

/// Disjoint, ascending, non-adjacent ranges of bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    pub(crate) fn insert(&mut self, offset: u64, bytes: u64) {
        let (mut start, mut end) = (offset, offset + bytes);
        self.0.retain(|&(s, e)| {
            let touches = s <= end && start <= e;
            if touches {
                (start, end) = (start.min(s), end.max(e));
            }
            !touches
        });
        let at = self.0.partition_point(|&(s, _)| s < start);
        self.0.insert(at, (start, end));
    }

    pub(crate) fn contains(&self, offset: u64, bytes: u64) -> bool {
        bytes == 0 || self.0.iter().any(|&(s, e)| s <= offset && offset + bytes <= e)
    }

    fn bytes(&self) -> u64 {
        self.0.iter().map(|(s, e)| e - s).sum()
    }
}

/// The store of a node.
#[derive(Debug, Default)]
pub(crate) struct Store {
    /// What has not been published.
    partial: BTreeMap<Piece, Ranges>,
    /// Published files, by the number of their inode.
    names: BTreeMap<Path, u64>,
    inodes: BTreeMap<u64, Ranges>,
    next_inode: u64,
}

impl Store {
    /// Makes room for content, in place if some is published. Blocks are kept apart until they are.
    pub(crate) fn open(&mut self, piece: &Piece) {
        if piece.1.is_some() || !self.names.contains_key(&piece.0) {
            self.partial.insert(piece.clone(), Ranges::default());
        }
    }

    /// Writes content between two positions.
    pub(crate) fn write(&mut self, piece: &Piece, head: &FileHead, mut from: u64, to: u64) {
        let published = self.names.get(&piece.0).and_then(|inode| self.inodes.get_mut(inode));
        let Some(file) = self.partial.get_mut(piece).or(published) else { return };
        while from < to {
            let Some((offset, in_range)) = head.locate(from) else { return };
            let bytes = in_range.min(to - from);
            file.insert(offset, bytes);
            from += bytes;
        }
    }

    pub(crate) fn contains(&self, piece: &Piece, offset: u64, bytes: u64) -> bool {
        self.files(piece).any(|file| file.contains(offset, bytes))
    }

    /// Whether everything that `head` describes is there.
    pub(crate) fn contains_all(&self, piece: &Piece, head: &FileHead) -> bool {
        self.files(piece).any(|file| head.ranges.iter().all(|&(offset, bytes)| file.contains(offset, bytes)))
    }

    /// What has arrived of a piece, and what is published of its file.
    fn files(&self, piece: &Piece) -> impl Iterator<Item = &Ranges> {
        let published = self.names.get(&piece.0).and_then(|inode| self.inodes.get(inode));
        self.partial.get(piece).into_iter().chain(published)
    }

    /// What has arrived becomes part of the published file, or is it.
    pub(crate) fn publish(&mut self, piece: &Piece) {
        let Some(file) = self.partial.remove(piece) else { return };
        let inode = *self.names.entry(piece.0.clone()).or_insert_with(|| {
            self.next_inode += 1;
            self.next_inode
        });
        let all = self.inodes.entry(inode).or_default();
        file.0.iter().for_each(|&(start, end)| all.insert(start, end - start));
    }

    /// False if the target is not there, or the name stands for another file.
    pub(crate) fn link(&mut self, path: &Path, target: &Path) -> bool {
        let Some(&inode) = self.names.get(target) else { return false };
        self.names.insert(path.clone(), inode).is_none_or(|before| before == inode)
    }

    pub(crate) fn discard(&mut self, piece: &Piece) {
        self.partial.remove(piece);
    }

    pub(crate) fn remove(&mut self, path: &Path) {
        if let Some(inode) = self.names.remove(path)
            && !self.names.values().any(|&other| other == inode)
        {
            self.inodes.remove(&inode);
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.partial.values().chain(self.inodes.values()).map(Ranges::bytes).sum()
    }
}
