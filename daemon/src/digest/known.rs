//! Digests of what this daemon's readers have read, for those that will want to know them.

use std::collections::{HashMap, VecDeque};

use headwater_abi::Path;
use headwater_abi::wire::{Digest, FileHead};

/// Digests that are kept; the oldest go first, and are computed anew if they are wanted.
const KNOWN_MAX: usize = 4096;

/// A file, or a block of it.
type Piece = (Path, Option<u32>);

/// Digests by what they are of.
#[derive(Debug, Default)]
pub(crate) struct Known {
    digests: HashMap<Piece, (FileHead, Digest)>,
    /// In the order in which they came, each once.
    order: VecDeque<Piece>,
}

impl Known {
    /// This content has this digest.
    pub(crate) fn note(&mut self, path: &Path, block: Option<u32>, head: &FileHead, digest: Digest) {
        let piece = (path.clone(), block);
        if self.digests.insert(piece.clone(), (head.clone(), digest)).is_some() {
            return;
        }
        self.order.push_back(piece);
        if self.order.len() > KNOWN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.digests.remove(&oldest);
        }
    }

    /// The digest of this very content.
    pub(crate) fn get(&self, path: &Path, block: Option<u32>, head: &FileHead) -> Option<Digest> {
        let (of, digest) = self.digests.get(&(path.clone(), block))?;
        let version = |head: &FileHead| (head.attr.ino, head.attr.size, head.attr.mtime);
        (version(of) == version(head) && of.ranges == head.ranges).then_some(*digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::tests::digest;
    use headwater_abi::Attr;

    fn head(mtime: i64, end: u64) -> FileHead {
        let attr = Attr { size: 10, mtime: (mtime, 0), ..Attr::default() };
        FileHead { attr, format: 0, ranges: [(0, end)].into(), whole: end == 10 }
    }

    #[test]
    fn a_digest_is_of_one_version_and_of_its_ranges() {
        let (mut known, path) = (Known::default(), Path::new(b"/f").unwrap());
        known.note(&path, None, &head(1, 10), digest(b"a"));
        known.note(&path, Some(0), &head(1, 10), digest(b"b"));
        assert_eq!(known.get(&path, None, &head(1, 10)), Some(digest(b"a")));
        assert_eq!(known.get(&path, Some(0), &head(1, 10)), Some(digest(b"b")));
        for (block, head) in [(None, head(2, 10)), (None, head(1, 9)), (Some(1), head(1, 10))] {
            assert_eq!(known.get(&path, block, &head), None);
        }
        known.note(&path, None, &head(2, 10), digest(b"c"));
        assert_eq!(known.get(&path, None, &head(2, 10)), Some(digest(b"c")));
    }

    #[test]
    fn they_are_bounded() {
        let (mut known, path) = (Known::default(), Path::new(b"/f").unwrap());
        for block in 0..KNOWN_MAX as u32 + 5 {
            known.note(&path, Some(block), &head(1, 10), digest(b"a"));
            known.note(&path, Some(block), &head(1, 10), digest(b"a"));
        }
        assert_eq!((known.digests.len(), known.order.len()), (KNOWN_MAX, KNOWN_MAX));
        assert_eq!(known.get(&path, Some(4), &head(1, 10)), None);
        assert!(known.get(&path, Some(5), &head(1, 10)).is_some());
    }
}
