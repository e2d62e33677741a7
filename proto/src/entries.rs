//! Entries by path. An entry becomes known once and then only grows: a directory's attributes are joined by
//! its names, a file's by content. Only content can be removed again.

use alloc::boxed::Box;
use alloc::collections::btree_map::Entry as Slot;
use alloc::collections::{BTreeMap, BTreeSet};
use core::cell::OnceCell;

use hashbrown::HashTable;
use headwater_abi::listing::Name;
use headwater_abi::wire::{Aspect, Fact};
use headwater_abi::{Listing, Path, hash};

use crate::entry::{Details, Entry, Inode, Learned, inode_of};

/// Bytes of listings that a node stores at most, even if nothing is forgotten: more than the shared table has
/// room for.
const LISTINGS_BYTES_MAX: u64 = 512 << 20;

/// The result of looking a name up in its directory's listing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Lookup<'a> {
    /// The directory's names are unknown.
    Unknown,
    /// The directory's names are to be looked up one by one.
    Unlistable,
    /// It has no such name.
    Missing,
    /// It has this name.
    Found(Name<'a>),
}

/// All entries, by the hash of their path; iteration is in the order of paths.
#[derive(Debug)]
pub(crate) struct Entries {
    by_path: HashTable<Box<Entry>>,
    /// All paths, computed when they are first needed in order.
    ordered: OnceCell<BTreeSet<Path>>,
    /// The known names of files that have several.
    names: BTreeMap<Inode, BTreeSet<Path>>,
    entries_max: usize,
    /// Bytes of all listings.
    listing_bytes: u64,
    listings_bytes_max: u64,
}

impl Entries {
    pub(crate) fn new(entries_max: usize) -> Entries {
        Entries {
            by_path: HashTable::new(),
            ordered: OnceCell::new(),
            names: BTreeMap::new(),
            entries_max,
            listing_bytes: 0,
            listings_bytes_max: LISTINGS_BYTES_MAX,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_path.len()
    }

    pub(crate) fn listing_bytes(&self) -> u64 {
        self.listing_bytes
    }

    pub(crate) fn get(&self, path: &Path) -> Option<&Entry> {
        self.by_path.find(path.hash(), |entry| entry.path == *path).map(Box::as_ref)
    }

    pub(crate) fn get_at(&self, path: &[u8]) -> Option<&Entry> {
        self.by_path.find(hash::bytes(path), |entry| entry.path.as_bytes() == path).map(Box::as_ref)
    }

    pub(crate) fn parent_of(&self, path: &Path) -> Option<&Entry> {
        self.get_at(path.parent_bytes()?)
    }

    pub(crate) fn get_mut(&mut self, path: &Path) -> Option<&mut Entry> {
        self.by_path.find_mut(path.hash(), |entry| entry.path == *path).map(Box::as_mut)
    }

    pub(crate) fn fact(&self, path: &Path) -> Option<&Fact> {
        self.get(path).map(|e| &e.fact)
    }

    /// Returns the names of a directory, if all are known.
    pub(crate) fn listing(&self, path: &Path) -> Option<&Listing> {
        match &self.get(path)?.fact {
            Fact::Listing(_, listing) => Some(listing),
            _ => None,
        }
    }

    /// Returns whether a request for this aspect can be answered.
    pub(crate) fn knows(&self, path: &Path, aspect: Aspect) -> bool {
        self.get(path).is_some_and(|entry| entry.knows(aspect))
    }

    /// Adds a fact, unless it contradicts the known one.
    pub(crate) fn learn(&mut self, path: &Path, fact: Fact) -> Learned {
        let (bytes, is_full) = (listing_bytes(&fact), self.by_path.len() >= self.entries_max);
        let is_too_large =
            bytes > 0 && self.listing_bytes + bytes > self.listings_bytes_max && self.listing(path).is_none();
        let learned = match self.get_mut(path) {
            _ if is_too_large => Learned::Full,
            Some(entry) => entry.learn(fact),
            None if is_full => Learned::Full,
            None => {
                let entry = Box::new(Entry::new(path.clone(), fact));
                if let Some(inode) = inode_of_several(&entry) {
                    self.names.entry(inode).or_default().insert(path.clone());
                }
                self.by_path.insert_unique(path.hash(), entry, |entry| entry.path.hash());
                if let Some(ordered) = self.ordered.get_mut() {
                    ordered.insert(path.clone());
                }
                Learned::New
            }
        };
        if learned == Learned::New {
            self.listing_bytes += bytes;
        }
        learned
    }

    /// Removes an entry. Its directory's details are then no longer complete.
    pub(crate) fn remove(&mut self, path: &Path) -> Option<Box<Entry>> {
        let entry = self.by_path.find_entry(path.hash(), |entry| entry.path == *path).ok()?.remove().0;
        if let Some(ordered) = self.ordered.get_mut() {
            ordered.remove(path);
        }
        if let Some(inode) = inode_of_several(&entry)
            && let Slot::Occupied(mut names) = self.names.entry(inode)
        {
            names.get_mut().remove(path);
            if names.get().is_empty() {
                names.remove();
            }
        }
        self.listing_bytes -= listing_bytes(&entry.fact);
        if let Some(directory) = path.parent().and_then(|at| self.get_mut(&at)?.directory.as_mut())
            && directory.details == Details::Known
        {
            directory.details = Details::Unknown;
        }
        Some(entry)
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.ordered().iter()
    }

    fn ordered(&self) -> &BTreeSet<Path> {
        self.ordered.get_or_init(|| self.by_path.iter().map(|entry| entry.path.clone()).collect())
    }

    /// Returns whether any path below this one is known.
    pub(crate) fn has_descendants(&self, path: &Path) -> bool {
        self.descendants(path).next().is_some()
    }

    /// Looks `path` up in its directory's listing.
    pub(crate) fn lookup(&self, path: &Path) -> Lookup<'_> {
        let Some(directory) = self.parent_of(path) else { return Lookup::Unknown };
        match &directory.fact {
            Fact::Unlistable(_) => Lookup::Unlistable,
            Fact::Listing(_, listing) => {
                listing.find(path.name()).map_or(Lookup::Missing, |(_, name)| Lookup::Found(name))
            }
            _ => Lookup::Unknown,
        }
    }

    /// Returns the inode of a path, from its attributes or from its directory's listing.
    pub(crate) fn inode_hint(&self, path: &Path) -> Option<Inode> {
        if let Some(entry) = self.get(path) {
            return entry.attr().map(inode_of);
        }
        let Lookup::Found(name) = self.lookup(path) else { return None };
        let directory = self.parent_of(path)?.attr()?;
        Some((directory.dev_major, directory.dev_minor, name.ino))
    }

    /// Returns the inode of a path that may be one of several names of a file.
    pub(crate) fn shared_inode(&self, path: &Path) -> Option<Inode> {
        match self.get(path) {
            Some(entry) => inode_of_several(entry),
            None => self.inode_hint(path),
        }
    }

    /// Returns the inodes that changes of a path may concern by another name of a file; with `tree`, also changes below.
    pub(crate) fn shared_inodes(&self, path: &Path, tree: bool) -> BTreeSet<Inode> {
        let mut inodes: BTreeSet<Inode> = self.shared_inode(path).into_iter().collect();
        if !tree {
            return inodes;
        }
        for path in core::iter::once(path).chain(self.descendants(path)) {
            inodes.extend(self.shared_inode(path));
            if let Some(Fact::Listing(directory, listing)) = self.fact(path) {
                inodes.extend(listing.iter().map(|name| (directory.dev_major, directory.dev_minor, name.ino)));
            }
        }
        inodes
    }

    /// Returns the known names of the files with these inodes that have several.
    pub(crate) fn names_of(&self, inodes: &BTreeSet<Inode>) -> impl Iterator<Item = &Path> {
        inodes.iter().filter_map(|inode| self.names.get(inode)).flatten()
    }

    /// Returns the known paths below `ancestor`.
    pub(crate) fn descendants<'a>(&'a self, ancestor: &'a Path) -> impl Iterator<Item = &'a Path> {
        let prefix = ancestor.as_bytes();
        self.ordered()
            .range(ancestor.clone()..)
            .take_while(move |path| path.as_bytes().starts_with(prefix))
            .filter(move |path| *path != ancestor && path.is_within(ancestor))
    }
}

/// Returns the inode of a file that has several names.
fn inode_of_several(entry: &Entry) -> Option<Inode> {
    entry.attr().filter(|attr| entry.is_file() && attr.nlink > 1).map(inode_of)
}

fn listing_bytes(fact: &Fact) -> u64 {
    match fact {
        Fact::Listing(_, listing) => listing.blob().len() as u64,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use headwater_abi::Attr;
    use headwater_abi::attr::mode;

    fn path(text: &str) -> Path {
        Path::new(text.as_bytes()).unwrap()
    }

    fn listing(names: &[&str]) -> Fact {
        let names = names.iter().map(|name| Name { ino: 1, d_type: 0, name: name.as_bytes() });
        Fact::Listing(Attr { mode: mode::DIR, ..Attr::default() }, names.collect())
    }

    #[test]
    fn listings_are_bounded_and_known_names_stay() {
        let mut entries = Entries::new(10);
        let names = listing(&["a", "b"]);
        entries.listings_bytes_max = 2 * listing_bytes(&names);
        assert_eq!(entries.learn(&path("/1"), names.clone()), Learned::New);
        assert_eq!(entries.learn(&path("/2"), names.clone()), Learned::New);
        assert_eq!(entries.learn(&path("/3"), names.clone()), Learned::Full);
        assert_eq!(entries.learn(&path("/1"), names.clone()), Learned::Known);
        assert!(entries.get(&path("/3")).is_none());
        entries.remove(&path("/2"));
        assert_eq!(entries.learn(&path("/3"), names), Learned::New);
    }

    #[test]
    fn names_are_looked_up_in_their_directory() {
        let mut entries = Entries::new(3);
        entries.learn(&path("/a"), listing(&["z", "lib", "a.so"]));
        entries.learn(&path("/a/u"), Fact::Unlistable(Attr { mode: mode::DIR, ..Attr::default() }));
        assert!(matches!(entries.lookup(&path("/a/lib")), Lookup::Found(name) if name.name == b"lib"));
        assert_eq!(entries.lookup(&path("/a/li")), Lookup::Missing);
        assert_eq!(entries.lookup(&path("/a/u/x")), Lookup::Unlistable);
        assert_eq!(entries.lookup(&path("/b/x")), Lookup::Unknown);
    }

    #[test]
    fn bytes_of_listings_are_counted() {
        let mut entries = Entries::new(2);
        entries.learn(&path("/a"), listing(&["z"]));
        let bytes = entries.listing_bytes();
        assert!(bytes > 0 && entries.learn(&path("/a"), listing(&["z", "lib"])) == Learned::Known);
        assert_eq!(
            (entries.learn(&path("/b"), listing(&["lib"])), entries.listing_bytes() > bytes),
            (Learned::New, true)
        );
        assert_eq!(entries.learn(&path("/c"), listing(&["lib"])), Learned::Full);
        assert!(entries.remove(&path("/b")).is_some() && entries.remove(&path("/b")).is_none());
        assert_eq!(entries.listing_bytes(), bytes);
    }

    #[test]
    fn descendants_are_those_below_and_no_neighbours() {
        let mut entries = Entries::new(9);
        let all = ["/a", "/a-b", "/a/b", "/a/b/c", "/a0", "/b"];
        all.iter().for_each(|p| assert_eq!(entries.learn(&path(p), Fact::Absent), Learned::New));
        let below: Vec<Path> = entries.descendants(&path("/a")).cloned().collect();
        assert_eq!(below, [path("/a/b"), path("/a/b/c")]);
        assert_eq!(entries.descendants(&Path::root()).count(), all.len());
        assert!(entries.has_descendants(&path("/a/b")) && !entries.has_descendants(&path("/a0")));
    }
}
