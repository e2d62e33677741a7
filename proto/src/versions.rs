//! Versions of paths: those to be reported, and those of forgotten paths, in eight bytes each: enough to notice when
//! the source file has changed since.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use headwater_abi::wire::{Fact, Version};
use headwater_abi::{Attr, Kind, Path, hash};

use crate::topology::{Forest, Rank, TreeId};

/// Slots of the table at most; changes of further forgotten paths may go unnoticed.
const SLOTS_MAX: usize = 1 << 21;
const SLOTS_MIN: usize = 1 << 10;
/// Bits of a slot that hold the version; the others hold the path's hash. Of 262,144 changes one goes
/// unnoticed; with a million paths remembered, one look-up in 70 million is a false alarm.
const VERSION_BITS: u32 = 18;
const VERSION_MASK: u64 = (1 << VERSION_BITS) - 1;
/// Fibonacci hashing (Knuth, TAOCP 3, 6.4).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hashes of paths and of their versions: open addressing, at most three quarters full.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    slots: Vec<u64>,
    used: usize,
}

impl Versions {
    pub(crate) fn remember(&mut self, path: &Path, fact: &Fact) {
        self.remember_version(&version_of(path, fact));
    }

    /// Remembers a version that another rank reports.
    pub(crate) fn remember_version(&mut self, version: &Version) {
        for word in words(version) {
            if self.used * 4 >= self.slots.len() * 3 && !self.grow() {
                return;
            }
            self.insert(word);
        }
    }

    /// Returns whether another version was published before.
    pub(crate) fn contradict(&self, path: &Path, fact: &Fact) -> bool {
        self.used > 0 && self.contradict_version(&version_of(path, fact))
    }

    /// Returns whether another rank's version contradicts the remembered one.
    pub(crate) fn contradict_version(&self, version: &Version) -> bool {
        self.used > 0
            && words(version).any(|word| {
                let reported = self.slots[self.find(word)];
                reported != 0 && reported != word
            })
    }

    fn insert(&mut self, word: u64) {
        let at = self.find(word);
        self.used += usize::from(self.slots[at] == 0);
        self.slots[at] = word;
    }

    /// Returns the slot with this word's path, or the empty one for it.
    fn find(&self, word: u64) -> usize {
        let mask = self.slots.len() - 1;
        let first = ((word >> VERSION_BITS).wrapping_mul(SPREAD) >> 32) as usize;
        let mut probes = (0..=mask).map(|probe| (first + probe) & mask);
        let belongs = |slot: u64| slot == 0 || slot >> VERSION_BITS == word >> VERSION_BITS;
        probes.find(|&at| belongs(self.slots[at])).expect("a quarter of the slots is empty")
    }

    fn grow(&mut self) -> bool {
        let count = (self.slots.len() * 2).max(SLOTS_MIN);
        if count > SLOTS_MAX {
            return false;
        }
        let before = core::mem::replace(&mut self.slots, alloc::vec![0; count]);
        self.used = 0;
        before.into_iter().filter(|&word| word != 0).for_each(|word| self.insert(word));
        true
    }
}

/// Versions of paths that a node has to report.
#[derive(Debug)]
pub(crate) struct VersionReports {
    /// Versions that this node does not know, or that may be unknown elsewhere.
    pub(crate) unreported: BTreeMap<TreeId, BTreeMap<Path, Version>>,
    /// Trees whose new parent is to get all versions that this node knows.
    pub(crate) unsettled: BTreeSet<TreeId>,
    /// Whether this node may become a reader.
    pub(crate) may_read: bool,
}

impl VersionReports {
    pub(crate) fn new(forest: &Forest, own: Rank) -> VersionReports {
        let may_read = forest.tree_ids().any(|tree| forest.candidates(tree).any(|candidate| candidate == own));
        VersionReports { unreported: BTreeMap::new(), unsettled: BTreeSet::new(), may_read }
    }
}

/// Returns the version of a fact: hashes of the attributes and of a directory's names.
pub(crate) fn version_of(path: &Path, fact: &Fact) -> Version {
    let names = match fact {
        // The order of the names does not matter.
        Fact::Listing(_, listing) => Some(listing.iter().fold(0, |sum: u64, n| sum.wrapping_add(hash::bytes(n.name)))),
        _ => None,
    };
    let fact = match fact {
        Fact::Absent => 1,
        Fact::Error(errno) => 2 + u64::from(*errno),
        Fact::Link(_, target) => hash::bytes(target),
        Fact::Attr(attr) | Fact::Listing(attr, _) | Fact::Unlistable(attr) => hash_of(attr),
    };
    Version { path: path.clone(), fact, names }
}

fn words(version: &Version) -> impl Iterator<Item = u64> {
    let key = version.path.hash();
    let names = version.names.map(|names| word(hash::inode(key), names));
    [word(key, version.fact)].into_iter().chain(names)
}

fn word(key: u64, version: u64) -> u64 {
    (key & !VERSION_MASK).max(VERSION_MASK + 1) | version & VERSION_MASK
}

/// Device numbers differ between nodes.
fn hash_of(attr: &Attr) -> u64 {
    let mut words = [attr.ino, 0, 0, 0, 0, 0];
    if attr.kind() != Kind::Dir {
        let nanoseconds = u64::from(attr.mtime.1) << 32 | u64::from(attr.ctime.1);
        let rest = [attr.mode.into(), attr.size, attr.mtime.0 as u64, attr.ctime.0 as u64, nanoseconds];
        words[1..].copy_from_slice(&rest);
    }
    hash::words(words.into_iter(), size_of_val(&words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use headwater_abi::attr::mode;
    use headwater_abi::{Listing, Name};

    fn path(number: u64) -> Path {
        Path::new(format!("/sw/{number}").as_bytes()).unwrap()
    }

    fn file(size: u64) -> Fact {
        Fact::Attr(Attr { mode: mode::FILE, size, atime: (size as i64, 0), ..Attr::default() })
    }

    #[test]
    fn a_reported_version_is_known_and_another_contradicts() {
        let mut versions = Versions::default();
        assert!(!versions.contradict(&path(0), &file(0)));
        (0..10_000).for_each(|number| versions.remember(&path(number), &file(number)));
        assert!((0..10_000).all(|number| !versions.contradict(&path(number), &file(number))));
        assert!((0..10_000).all(|number| versions.contradict(&path(number), &file(number + 1))));
        assert!((10_000..20_000).all(|number| !versions.contradict(&path(number), &file(7))));
        assert!(versions.contradict(&path(5), &Fact::Absent) && versions.contradict(&path(5), &Fact::Error(13)));
    }

    #[test]
    fn a_directory_is_the_same_whatever_else_is_reported() {
        let attr = |size| Attr { mode: mode::DIR, ino: 7, size, ..Attr::default() };
        let listing = |names: &[&str]| {
            let names = names.iter().map(|name| Name { ino: 1, d_type: 8, name: name.as_bytes() });
            Fact::Listing(attr(9), names.collect::<Listing>())
        };
        let mut versions = Versions::default();
        versions.remember(&path(0), &Fact::Attr(attr(1)));
        assert!(!versions.contradict(&path(0), &listing(&["a", "b"])));
        versions.remember(&path(0), &listing(&["a", "b"]));
        assert!(!versions.contradict(&path(0), &listing(&["b", "a"])));
        assert!(versions.contradict(&path(0), &listing(&["a", "c"])));
        assert!(!versions.contradict(&path(0), &Fact::Attr(attr(2))));
        assert!(versions.contradict(&path(0), &Fact::Attr(Attr { ino: 8, ..attr(1) })));
    }

    #[test]
    fn its_size_is_bounded() {
        let mut versions = Versions::default();
        (0..SLOTS_MAX as u64).for_each(|number| versions.remember(&path(number), &file(1)));
        assert_eq!(versions.slots.len(), SLOTS_MAX);
        assert!((0..1000).all(|number| versions.contradict(&path(number), &file(2))));
    }
}
