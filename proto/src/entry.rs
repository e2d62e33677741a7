//! What is known of one path.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use headwater_abi::listing::Name;
use headwater_abi::wire::{Aspect, Digest, Fact, FileHead, TransferId, block_count};
use headwater_abi::{Attr, Kind, Path};

use crate::Rank;
use crate::ahead::{Files, Sequence};
use crate::policy::Recipients;
use crate::stored::StoredContent;
use crate::traversal::Streak;

/// A device and inode number.
pub(crate) type Inode = (u32, u32, u64);

/// A file's content in one piece, or one block of it.
pub(crate) type Piece = (Path, Option<u32>);

/// What is known of one path.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) path: Path,
    pub(crate) fact: Fact,
    /// Number of the record in the order of learning, wrapping.
    pub(crate) learnt: u32,
    /// It is published that processes read the source file.
    pub(crate) is_direct: bool,
    /// Content in the store.
    pub(crate) stored: Option<Box<StoredContent>>,
    /// Content in transit in one piece.
    pub(crate) arriving: Option<Box<Arriving>>,
    /// Set for a file that travels in blocks.
    pub(crate) blocks: Option<Box<Blocks>>,
    /// Set for a directory about whose names several requests came.
    pub(crate) directory: Option<Box<Directory>>,
    /// Children that have the fact.
    pub(crate) fact_at: Recipients,
    /// Children that have the content.
    pub(crate) content_at: Recipients,
    /// Children that had the content when it was evicted here.
    pub(crate) downstream_sources: Vec<Rank>,
}

/// Content of which the bytes before `position` are in the store.
#[derive(Debug)]
pub(crate) struct Arriving {
    /// `Loadable`, `Whole` or a block.
    pub(crate) aspect: Aspect,
    pub(crate) head: Arc<FileHead>,
    pub(crate) position: u64,
    /// Bytes of the store that are reserved for it.
    pub(crate) reserved: u64,
    pub(crate) source: Source,
    /// Content that the store refused to evict for it.
    pub(crate) unevictable: Vec<Path>,
}

impl Arriving {
    /// Returns whether `head` describes the same content of the same version of the file.
    pub(crate) fn is_of(&self, head: &FileHead) -> bool {
        self.head.ranges == head.ranges && is_same_version(&self.head.attr, &head.attr)
    }
}

/// Where content comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// This node reads it.
    Reader,
    /// A parent sends it, under this number.
    Parent(Rank, TransferId),
    /// Its sender is lost; the rest will be requested from `position`.
    Lost,
}

/// The blocks of a file that are not in the store yet.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    pub(crate) arriving: BTreeMap<u32, Arriving>,
    /// Children that have a block, or requested it.
    pub(crate) at: BTreeMap<u32, Recipients>,
    /// What processes read in order.
    pub(crate) sequence: Sequence,
    /// The download of content that consists of blocks.
    pub(crate) download: Option<BlockDownload>,
    /// The reader's description of content that is to be requested block by block.
    pub(crate) large: Option<(Aspect, Arc<FileHead>)>,
}

/// Content that is downloaded block by block.
#[derive(Debug)]
pub(crate) struct BlockDownload {
    pub(crate) aspect: Aspect,
    pub(crate) head: Arc<FileHead>,
    /// The first block that has not been requested.
    pub(crate) next: u32,
    pub(crate) in_flight: BTreeSet<u32>,
}

/// Requests about a directory's names.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    /// Look-ups of unknown names, since the details were last known.
    pub(crate) lookups: usize,
    pub(crate) streak: Streak,
    pub(crate) details: Details,
    /// Contents that processes request one after the other.
    pub(crate) files: Files,
}

/// Whether the facts about a directory's names are known, as far as they can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Details {
    #[default]
    Unknown,
    /// They have been requested; a reader reads them in so many batches.
    Requested {
        batches: usize,
        is_pushed: bool,
    },
    Known,
}

/// The result of learning a fact.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Learned {
    /// It is new.
    New,
    /// It was known.
    Known,
    /// Another fact is known, and stays.
    Contradiction,
    /// The node has no room for it.
    Full,
}

impl Entry {
    pub(crate) fn new(path: Path, fact: Fact) -> Entry {
        Entry {
            path,
            fact,
            learnt: 0,
            is_direct: false,
            stored: None,
            arriving: None,
            blocks: None,
            directory: None,
            fact_at: Recipients::default(),
            content_at: Recipients::default(),
            downstream_sources: Vec::new(),
        }
    }

    pub(crate) fn attr(&self) -> Option<&Attr> {
        self.fact.attr()
    }

    pub(crate) fn is_file(&self) -> bool {
        matches!(&self.fact, Fact::Attr(attr) if attr.kind() == Kind::File)
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.attr().is_some_and(|attr| attr.kind() == Kind::Dir)
    }

    /// Returns whether a request for this aspect can be answered.
    pub(crate) fn knows(&self, aspect: Aspect) -> bool {
        match aspect {
            Aspect::Entry => true,
            Aspect::Listing => !matches!(&self.fact, Fact::Attr(attr) if attr.kind() == Kind::Dir),
            Aspect::Loadable | Aspect::Whole | Aspect::Block(_) => !self.is_file() || self.has_content(aspect),
            Aspect::Details => {
                let is_listed = matches!(self.fact, Fact::Listing(..));
                !is_listed || self.directory.as_ref().is_some_and(|d| d.details == Details::Known)
            }
        }
    }

    /// Returns whether content in the store covers this aspect.
    pub(crate) fn has_content(&self, aspect: Aspect) -> bool {
        self.stored.as_ref().is_some_and(|stored| stored.covers(aspect))
    }

    /// Returns the head of stored content; `None` if there is none of this aspect.
    pub(crate) fn stored_head(&self, aspect: Aspect) -> Option<FileHead> {
        let attr = *self.attr()?;
        self.stored.as_ref()?.head(attr, aspect)
    }

    /// Returns what the reader of this aspect needs: the head of what is stored, and for a block at least the
    /// file's attributes.
    pub(crate) fn have(&self, aspect: Aspect) -> Option<FileHead> {
        let attr = *self.attr()?;
        let stored = self.stored.as_ref().map(|stored| stored.summary(attr));
        let is_block = aspect.block().is_some();
        stored.or_else(|| is_block.then(|| FileHead { attr, format: 0, ranges: Arc::from([]), whole: false }))
    }

    /// Returns content that covers `aspect`, stored or arriving.
    pub(crate) fn content_for(&self, aspect: Aspect) -> Option<(Aspect, Arc<FileHead>)> {
        if let Some(head) = self.stored_head(aspect) {
            let has = if head.whole && aspect.block().is_none() { Aspect::Whole } else { aspect };
            return Some((has, Arc::new(head)));
        }
        let arriving = self.arriving(aspect.block()).filter(|a| covers(a.aspect, aspect))?;
        Some((arriving.aspect, arriving.head.clone()))
    }

    /// Returns the arriving content, or one arriving block.
    pub(crate) fn arriving(&self, block: Option<u32>) -> Option<&Arriving> {
        match block {
            None => self.arriving.as_deref(),
            Some(number) => self.blocks.as_ref()?.arriving.get(&number),
        }
    }

    pub(crate) fn arriving_mut(&mut self, block: Option<u32>) -> Option<&mut Arriving> {
        match block {
            None => self.arriving.as_deref_mut(),
            Some(number) => self.blocks.as_mut()?.arriving.get_mut(&number),
        }
    }

    pub(crate) fn take_arriving(&mut self, block: Option<u32>) -> Option<Arriving> {
        match block {
            None => self.arriving.take().map(|arriving| *arriving),
            Some(number) => self.blocks.as_mut()?.arriving.remove(&number),
        }
    }

    pub(crate) fn set_arriving(&mut self, arriving: Arriving) {
        match arriving.aspect.block() {
            None => self.arriving = Some(Box::new(arriving)),
            Some(number) => drop(self.blocks.get_or_insert_default().arriving.insert(number, arriving)),
        }
    }

    /// Returns whether any part of the file is arriving.
    pub(crate) fn is_arriving(&self) -> bool {
        let is_coming = |blocks: &Blocks| !blocks.arriving.is_empty() || blocks.download.is_some();
        self.arriving.is_some() || self.blocks.as_deref().is_some_and(is_coming)
    }

    /// Returns the block download, if there is one.
    pub(crate) fn download(&self) -> Option<&BlockDownload> {
        self.blocks.as_ref()?.download.as_ref()
    }

    /// Returns the head of content that covers `aspect` and is to be requested block by block.
    pub(crate) fn large_for(&self, aspect: Aspect) -> Option<(Aspect, Arc<FileHead>)> {
        self.blocks.as_ref()?.large.clone().filter(|(large, _)| covers(*large, aspect))
    }

    /// Returns the digest of stored content, if it was received or computed.
    pub(crate) fn digest(&self, aspect: Aspect) -> Option<Digest> {
        self.stored.as_ref()?.digest(aspect)
    }

    pub(crate) fn pieces_arriving(&self) -> Vec<Option<u32>> {
        let whole = self.arriving.as_ref().map(|_| None);
        let blocks = self.blocks.iter().flat_map(|blocks| blocks.arriving.keys().copied().map(Some));
        whole.into_iter().chain(blocks).collect()
    }

    /// Returns the number of arriving pieces that have lost their sender.
    pub(crate) fn orphans(&self) -> usize {
        let blocks = self.blocks.iter().flat_map(|blocks| blocks.arriving.values());
        self.arriving.as_deref().into_iter().chain(blocks).filter(|a| a.source == Source::Lost).count()
    }

    /// Returns how many bytes of the content that `head` describes are stored; `None` if it was evicted.
    pub(crate) fn available(&self, aspect: Aspect, head: &Arc<FileHead>) -> Option<u64> {
        if self.has_content(aspect) {
            return Some(head.content_bytes());
        }
        self.arriving(aspect.block()).filter(|a| Arc::ptr_eq(&a.head, head)).map(|a| a.position)
    }

    /// Returns the children that have this content, or requested it.
    pub(crate) fn recipients(&mut self, block: Option<u32>) -> &mut Recipients {
        match block {
            None => &mut self.content_at,
            Some(number) => self.blocks.get_or_insert_default().at.entry(number).or_default(),
        }
    }

    pub(crate) fn block_count(&self) -> u32 {
        if self.is_file() { self.attr().map_or(0, |attr| block_count(attr.size)) } else { 0 }
    }

    /// Adds a fact, unless it contradicts the known one.
    pub(crate) fn learn(&mut self, fact: Fact) -> Learned {
        let grown = match (&self.fact, fact) {
            (Fact::Attr(old), Fact::Listing(new, listing)) if is_same_directory(old, &new) => {
                Fact::Listing(*old, listing)
            }
            (Fact::Attr(old), Fact::Unlistable(new)) if is_same_directory(old, &new) => Fact::Unlistable(*old),
            (Fact::Attr(old), Fact::Attr(new)) if old.kind() == Kind::Dir && is_same_directory(old, &new) => {
                return Learned::Known;
            }
            (Fact::Attr(old), Fact::Attr(new)) if is_same_version(old, &new) => return Learned::Known,
            (
                Fact::Listing(old, _) | Fact::Unlistable(old),
                Fact::Attr(new) | Fact::Listing(new, _) | Fact::Unlistable(new),
            ) if is_same_directory(old, &new) => return Learned::Known,
            (Fact::Link(_, old), Fact::Link(_, new)) if *old == new => return Learned::Known,
            (Fact::Absent, Fact::Absent) => return Learned::Known,
            (Fact::Error(old), Fact::Error(new)) if *old == new => return Learned::Known,
            _ => return Learned::Contradiction,
        };
        self.fact = grown;
        self.fact_at = Recipients::default();
        Learned::New
    }
}

/// Returns the aspect of content in one piece.
pub(crate) fn aspect_of(head: &FileHead) -> Aspect {
    if head.whole { Aspect::Whole } else { Aspect::Loadable }
}

/// Returns whether content of one aspect covers another.
pub(crate) fn covers(has: Aspect, wanted: Aspect) -> bool {
    has == wanted || (has == Aspect::Whole && wanted == Aspect::Loadable)
}

/// Returns whether a fact is well-formed: kinds agree, and a listing's names are names.
pub(crate) fn is_sound(fact: &Fact) -> bool {
    match fact {
        Fact::Absent => true,
        Fact::Error(errno) => *errno != 0,
        Fact::Attr(attr) => attr.kind() != Kind::Link,
        Fact::Link(attr, target) => attr.kind() == Kind::Link && !target.is_empty() && !target.contains(&0),
        Fact::Unlistable(attr) => attr.kind() == Kind::Dir,
        Fact::Listing(attr, listing) => {
            attr.kind() == Kind::Dir && listing.iter().all(|Name { name, .. }| is_name(name))
        }
    }
}

/// Returns whether these bytes can be a component of a path.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.len() <= usize::from(u8::MAX) && !name.iter().any(|&b| b == b'/' || b == 0)
}

/// Returns whether two reads of a file's attributes saw the same version. Access times change by reading, and
/// device numbers differ between nodes.
pub(crate) fn is_same_version(a: &Attr, b: &Attr) -> bool {
    let version = |a: &Attr| (a.ino, a.mode, a.size, a.mtime, a.ctime);
    version(a) == version(b)
}

pub(crate) fn inode_of(attr: &Attr) -> Inode {
    (attr.dev_major, attr.dev_minor, attr.ino)
}

pub(crate) fn is_same_directory(a: &Attr, b: &Attr) -> bool {
    a.kind() == Kind::Dir && b.kind() == Kind::Dir && a.ino == b.ino
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_abi::attr::mode;

    fn attr(kind: u32, ino: u64) -> Attr {
        Attr { mode: kind, ino, ..Attr::default() }
    }

    fn listing(ino: u64, names: &[&str]) -> Fact {
        let names = names.iter().map(|name| Name { ino: 1, d_type: 0, name: name.as_bytes() });
        Fact::Listing(attr(mode::DIR, ino), names.collect())
    }

    #[test]
    fn an_entry_only_grows() {
        let check = |first: Fact, second: Fact, becomes: Learned| {
            let mut entry = Entry::new(Path::root(), first.clone());
            assert_eq!(entry.learn(second.clone()), becomes, "{first:?} then {second:?}");
            assert_eq!(entry.fact == first, becomes != Learned::New);
        };
        let (dir, file) = (attr(mode::DIR, 1), attr(mode::FILE, 1));
        check(Fact::Attr(dir), listing(1, &["x"]), Learned::New);
        check(Fact::Attr(dir), Fact::Unlistable(dir), Learned::New);
        check(Fact::Attr(dir), listing(2, &["x"]), Learned::Contradiction);
        check(Fact::Attr(dir), Fact::Attr(Attr { mtime: (5, 0), ..dir }), Learned::Known);
        check(listing(1, &["x"]), Fact::Attr(dir), Learned::Known);
        check(listing(1, &["x"]), listing(1, &["x", "y"]), Learned::Known);
        check(Fact::Attr(file), Fact::Attr(Attr { atime: (5, 0), ..file }), Learned::Known);
        check(Fact::Attr(file), Fact::Attr(Attr { mtime: (5, 0), ..file }), Learned::Contradiction);
        check(Fact::Attr(file), Fact::Absent, Learned::Contradiction);
        check(Fact::Absent, Fact::Attr(file), Learned::Contradiction);
        check(Fact::Error(13), Fact::Error(13), Learned::Known);
        check(Fact::Error(13), Fact::Error(40), Learned::Contradiction);
    }
}
