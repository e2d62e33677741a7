//! The model of one node's store: the bytes of each file. A byte is represented by a *stamp* of the file and
//! its version; a wrong byte has another one.

use std::collections::BTreeMap;

use headwater_abi::wire::{Digest, FileHead};
use headwater_abi::{Attr, Path, hash};

use crate::reader::Piece;

/// Bytes of a file from the first offset up to the second, with their stamp.
pub(crate) type Segment = (u64, u64, u64);

/// Returns the stamp of right bytes of a file with these attributes.
pub(crate) fn stamp_of(attr: &Attr) -> u64 {
    let words = [attr.ino, attr.size, attr.mtime.0 as u64];
    hash::words(words.into_iter(), size_of_val(&words))
}

/// Returns the digest of bytes, however they were split.
pub(crate) fn digest_of(segments: impl IntoIterator<Item = Segment>) -> Digest {
    let words: Vec<u64> = merged(segments).iter().flat_map(|&(s, e, stamp)| [s, e, stamp]).collect();
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&hash::words(words.iter().copied(), words.len() * 8).to_le_bytes());
    Digest(digest)
}

/// Joins adjacent segments with the same stamp.
fn merged(segments: impl IntoIterator<Item = Segment>) -> Vec<Segment> {
    let mut merged: Vec<Segment> = Vec::new();
    for segment in segments {
        match merged.last_mut() {
            Some(last) if last.1 == segment.0 && last.2 == segment.2 => last.1 = segment.1,
            _ => merged.push(segment),
        }
    }
    merged
}

#[derive(Clone, Debug, Default)]
struct Bytes(Vec<Segment>);

impl Bytes {
    /// Overwrites bytes. Returns how many are new.
    fn insert(&mut self, new: Segment) -> u64 {
        let (start, end, _) = new;
        let before = self.count();
        let first = self.0.partition_point(|&(_, e, _)| e < start);
        let last = self.0.partition_point(|&(s, _, _)| s <= end);
        let left = self.0[first..last].first().filter(|s| s.0 < start).map(|&(s, e, stamp)| (s, e.min(start), stamp));
        let right = self.0[first..last].last().filter(|s| s.1 > end).map(|&(s, e, stamp)| (s.max(end), e, stamp));
        self.0.splice(first..last, merged(left.into_iter().chain([new]).chain(right)));
        self.count() - before
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|(s, e, _)| e - s).sum()
    }

    fn count_within(&self, start: u64, end: u64) -> u64 {
        self.0.iter().map(|&(s, e, _)| e.min(end).saturating_sub(s.max(start))).sum()
    }

    /// Returns these bytes, if all of them are there.
    fn read(&self, offset: u64, bytes: u64) -> Option<Vec<Segment>> {
        let (mut at, end) = (offset, offset + bytes);
        let mut segments = Vec::new();
        let first = self.0.partition_point(|&(_, e, _)| e <= offset);
        for &(s, e, stamp) in &self.0[first..] {
            if at >= end || s > at {
                break;
            }
            segments.push((at, e.min(end), stamp));
            at = e.min(end);
        }
        (at >= end).then_some(segments)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Store {
    /// What has not been published.
    partial: BTreeMap<Piece, Bytes>,
    /// Published files, by the number of their inode.
    names: BTreeMap<Path, u64>,
    inodes: BTreeMap<u64, Bytes>,
    next_inode: u64,
    /// Bytes of files that older generations retain.
    retained: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Store {
    /// Makes room for content. What is published of the file stays as it is.
    pub(crate) fn open(&mut self, piece: &Piece) {
        self.discard(piece);
        self.partial.insert(piece.clone(), Bytes::default());
    }

    /// Writes the shared file system's bytes between two positions.
    pub(crate) fn fill(&mut self, piece: &Piece, head: &FileHead, mut from: u64, to: u64) {
        while from < to {
            let Some((offset, in_range)) = head.locate(from) else { return };
            let bytes = in_range.min(to - from);
            self.write(piece, [(offset, offset + bytes, stamp_of(&head.attr))]);
            from += bytes;
        }
    }

    pub(crate) fn write(&mut self, piece: &Piece, segments: impl IntoIterator<Item = Segment>) {
        let Some(file) = self.partial.get_mut(piece) else { return };
        self.bytes += segments.into_iter().map(|segment| file.insert(segment)).sum::<u64>();
    }

    /// Returns bytes of a file, if all of them are there.
    pub(crate) fn read(&self, piece: &Piece, offset: u64, bytes: u64) -> Option<Vec<Segment>> {
        self.files(piece).find_map(|file| file.read(offset, bytes))
    }

    /// Returns whether all bytes that `head` describes are there, right or wrong.
    pub(crate) fn contains_all(&self, piece: &Piece, head: &FileHead) -> bool {
        self.read_all(piece, head).is_some()
    }

    /// Returns whether all bytes that `head` describes are there and right.
    pub(crate) fn is_right(&self, piece: &Piece, head: &FileHead) -> bool {
        let stamp = stamp_of(&head.attr);
        self.read_all(piece, head).is_some_and(|segments| segments.iter().all(|segment| segment.2 == stamp))
    }

    /// Returns whether all bytes that `head` describes are published under this name, and right, whatever arrives
    /// meanwhile.
    pub(crate) fn is_published(&self, path: &Path, head: &FileHead) -> bool {
        let published = self.names.get(path).and_then(|inode| self.inodes.get(inode));
        let is_right = |file: &Bytes, &(offset, bytes): &(u64, u64)| {
            file.read(offset, bytes).is_some_and(|all| all.iter().all(|segment| segment.2 == stamp_of(&head.attr)))
        };
        head.ranges.iter().all(|range| published.is_some_and(|file| is_right(file, range)))
    }

    /// Returns the digest of the bytes that `head` describes, if all are there.
    pub(crate) fn digest(&self, piece: &Piece, head: &FileHead) -> Option<Digest> {
        Some(digest_of(self.read_all(piece, head)?))
    }

    /// Returns the bytes that `head` describes, if all are there.
    pub(crate) fn read_all(&self, piece: &Piece, head: &FileHead) -> Option<Vec<Segment>> {
        let read = |file: &Bytes| {
            let mut all = Vec::new();
            for &(offset, bytes) in head.ranges.iter() {
                all.extend(file.read(offset, bytes)?);
            }
            Some(all)
        };
        let nothing = head.ranges.is_empty().then(Vec::new);
        self.files(piece).find_map(read).or(nothing)
    }

    /// Returns what has arrived of a piece, and what is published of its file.
    fn files(&self, piece: &Piece) -> impl Iterator<Item = &Bytes> {
        let published = self.names.get(&piece.0).and_then(|inode| self.inodes.get(inode));
        self.partial.get(piece).into_iter().chain(published)
    }

    /// Adds what has arrived to the published file, or publishes it.
    pub(crate) fn publish(&mut self, piece: &Piece) {
        let Some(file) = self.partial.remove(piece) else { return };
        self.bytes -= file.count();
        let inode = *self.names.entry(piece.0.clone()).or_insert_with(|| {
            self.next_inode += 1;
            self.next_inode
        });
        let all = self.inodes.entry(inode).or_default();
        self.bytes += file.0.into_iter().map(|segment| all.insert(segment)).sum::<u64>();
    }

    /// Returns the number of the published file of a name.
    pub(crate) fn file_of(&self, path: &Path) -> Option<u64> {
        self.names.get(path).copied()
    }

    /// Links a name. False if the target is missing, or the name has another file.
    pub(crate) fn link(&mut self, path: &Path, target: &Path) -> bool {
        let Some(&inode) = self.names.get(target) else { return false };
        self.names.insert(path.clone(), inode).is_none_or(|before| before == inode)
    }

    pub(crate) fn discard(&mut self, piece: &Piece) {
        self.bytes -= self.partial.remove(piece).map_or(0, |file| file.count());
    }

    pub(crate) fn remove(&mut self, path: &Path) {
        self.bytes -= self.take(path);
    }

    /// Removes a name. Returns the bytes of the file if it was the last.
    fn take(&mut self, path: &Path) -> u64 {
        let Some(inode) = self.names.remove(path) else { return 0 };
        let is_last = !self.names.values().any(|&other| other == inode);
        let file = if is_last { self.inodes.remove(&inode) } else { None };
        file.map_or(0, |file| file.count())
    }

    /// Retains the file for processes of an older generation.
    pub(crate) fn retain_version(&mut self, path: &Path, generation: u64) {
        let bytes = self.take(path);
        *self.retained.entry(generation).or_default() += bytes;
    }

    /// Removes the files of a generation without processes.
    pub(crate) fn forget_generation(&mut self, generation: u64) {
        self.bytes -= self.retained.remove(&generation).unwrap_or_default();
    }

    /// Removes what is not published, and what `is_kept` refuses.
    pub(crate) fn reduce(&mut self, is_kept: impl Fn(&Path) -> bool) {
        self.partial.clear();
        self.retained.clear();
        self.names.retain(|path, _| is_kept(path));
        let names = &self.names;
        self.inodes.retain(|inode, _| names.values().any(|used| used == inode));
        self.bytes = self.inodes.values().map(Bytes::count).sum();
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether there are at most so many bytes. Arriving bytes take no room in a published file.
    pub(crate) fn is_within(&self, bytes_max: u64) -> bool {
        let is_published = |piece: &Piece| self.names.get(&piece.0).and_then(|inode| self.inodes.get(inode));
        let twice = |(piece, file): (&Piece, &Bytes)| {
            let published = is_published(piece)?;
            Some(file.0.iter().map(|&(s, e, _)| published.count_within(s, e)).sum::<u64>())
        };
        self.bytes <= bytes_max || self.bytes - self.partial.iter().filter_map(twice).sum::<u64>() <= bytes_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_over() {
        let mut bytes = Bytes::default();
        let check = |bytes: &mut Bytes, new: Segment, added: u64, all: &[Segment]| {
            assert_eq!(bytes.insert(new), added, "{new:?}");
            assert_eq!(bytes.0, all, "{new:?}");
        };
        check(&mut bytes, (10, 20, 1), 10, &[(10, 20, 1)]);
        check(&mut bytes, (20, 30, 1), 10, &[(10, 30, 1)]);
        check(&mut bytes, (15, 18, 2), 0, &[(10, 15, 1), (15, 18, 2), (18, 30, 1)]);
        check(&mut bytes, (40, 50, 1), 10, &[(10, 15, 1), (15, 18, 2), (18, 30, 1), (40, 50, 1)]);
        assert_eq!(bytes.read(12, 8), Some(vec![(12, 15, 1), (15, 18, 2), (18, 20, 1)]));
        assert_eq!((bytes.read(25, 20), bytes.read(45, 5)), (None, Some(vec![(45, 50, 1)])));
        check(&mut bytes, (12, 45, 1), 10, &[(10, 50, 1)]);
        check(&mut bytes, (0, 60, 3), 20, &[(0, 60, 3)]);
    }
}
