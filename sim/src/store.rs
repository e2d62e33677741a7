//! The model of one node's store: which bytes of which file are there.

use std::collections::BTreeMap;

use headwater_abi::Path;
use headwater_abi::wire::FileHead;

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
    partial: BTreeMap<Path, Ranges>,
    /// Published files, by the number of their inode.
    names: BTreeMap<Path, u64>,
    inodes: BTreeMap<u64, Ranges>,
    next_inode: u64,
}

impl Store {
    /// Makes room for content of `path`, in place if it is published.
    pub(crate) fn open(&mut self, path: &Path) {
        if !self.names.contains_key(path) {
            self.partial.insert(path.clone(), Ranges::default());
        }
    }

    /// Writes content between two positions.
    pub(crate) fn write(&mut self, path: &Path, head: &FileHead, mut from: u64, to: u64) {
        let file = match self.names.get(path) {
            Some(inode) => self.inodes.get_mut(inode),
            None => self.partial.get_mut(path),
        };
        let Some(file) = file else { return };
        while from < to {
            let Some((offset, in_range)) = head.locate(from) else { return };
            let bytes = in_range.min(to - from);
            file.insert(offset, bytes);
            from += bytes;
        }
    }

    pub(crate) fn contains(&self, path: &Path, offset: u64, bytes: u64) -> bool {
        self.file(path).is_some_and(|file| file.contains(offset, bytes))
    }

    /// Whether everything that `head` describes is there.
    pub(crate) fn contains_all(&self, path: &Path, head: &FileHead) -> bool {
        self.file(path).is_some_and(|file| head.ranges.iter().all(|&(offset, bytes)| file.contains(offset, bytes)))
    }

    fn file(&self, path: &Path) -> Option<&Ranges> {
        match self.names.get(path) {
            Some(inode) => self.inodes.get(inode),
            None => self.partial.get(path),
        }
    }

    pub(crate) fn publish(&mut self, path: &Path) {
        if let Some(file) = self.partial.remove(path) {
            self.next_inode += 1;
            self.inodes.insert(self.next_inode, file);
            self.names.insert(path.clone(), self.next_inode);
        }
    }

    /// False if the target is not there, or the name stands for another file.
    pub(crate) fn link(&mut self, path: &Path, target: &Path) -> bool {
        let Some(&inode) = self.names.get(target) else { return false };
        self.names.insert(path.clone(), inode).is_none_or(|before| before == inode)
    }

    pub(crate) fn discard(&mut self, path: &Path) {
        self.partial.remove(path);
    }

    pub(crate) fn remove(&mut self, path: &Path) {
        self.partial.remove(path);
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
