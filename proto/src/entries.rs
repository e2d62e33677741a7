//! What is known, by path. An entry goes from unknown to known once and then only grows: a directory
//! of which the attributes are known gets its names, a file gets content. Content alone may go again.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use headwater_abi::listing::{LISTING_BYTES_MAX, LISTING_NAMES_MAX, Name};
use headwater_abi::wire::{Aspect, Fact, FileHead, TransferId};
use headwater_abi::{Attr, Kind, Path};

use crate::policy::Audience;

/// A device and inode number.
pub(crate) type Inode = (u32, u32, u64);

/// What is known of one path.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) fact: Fact,
    /// The listing's names in order.
    by_name: Box<[u32]>,
    pub(crate) complete: Option<Complete>,
    pub(crate) arriving: Option<Box<Arriving>>,
    /// Children that have the fact.
    pub(crate) fact_at: Audience,
    /// Children that have the content.
    pub(crate) content_at: Audience,
}

/// Content that is all in the store.
#[derive(Debug)]
pub(crate) struct Complete {
    pub(crate) head: Arc<FileHead>,
    /// Bytes of the store that it accounts for; another name of the same inode may account for them.
    pub(crate) bytes: u64,
    /// Its place in the eviction order.
    pub(crate) order: u64,
}

/// Content of which the bytes before `position` are in the store.
#[derive(Debug)]
pub(crate) struct Arriving {
    pub(crate) head: Arc<FileHead>,
    pub(crate) position: u64,
    /// Bytes of the store that are kept free for it.
    pub(crate) reserved: u64,
    /// The parent's number for it; `None` if this node reads it.
    pub(crate) transfer: Option<TransferId>,
    /// Content whose eviction for its sake was refused.
    pub(crate) unevictable: Vec<Path>,
}

/// What became of a new fact.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Learned {
    /// It is new.
    New,
    /// It was known.
    Known,
    /// Something else is known; that stays.
    Contradiction,
    /// There is no room for it.
    Full,
}

/// A name in a directory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Lookup<'a> {
    /// Nothing is known about the directory's names.
    Unknown,
    /// The directory's names are to be looked up one by one.
    Unlistable,
    /// It has no such name.
    Missing,
    /// It has.
    Found(&'a Name),
}

/// All entries.
#[derive(Debug)]
pub(crate) struct Entries {
    by_path: BTreeMap<Path, Entry>,
    entries_max: usize,
}

impl Entries {
    pub(crate) fn new(entries_max: usize) -> Entries {
        Entries { by_path: BTreeMap::new(), entries_max }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_path.len()
    }

    pub(crate) fn get(&self, path: &Path) -> Option<&Entry> {
        self.by_path.get(path)
    }

    pub(crate) fn get_mut(&mut self, path: &Path) -> Option<&mut Entry> {
        self.by_path.get_mut(path)
    }

    pub(crate) fn fact(&self, path: &Path) -> Option<&Fact> {
        self.get(path).map(|e| &e.fact)
    }

    /// Whether a question for this aspect needs nothing more.
    pub(crate) fn knows(&self, path: &Path, aspect: Aspect) -> bool {
        let Some(entry) = self.get(path) else { return false };
        match aspect {
            Aspect::Entry => true,
            Aspect::Listing => !matches!(&entry.fact, Fact::Attr(attr) if attr.kind() == Kind::Dir),
            Aspect::Loadable | Aspect::Whole => !entry.is_file() || entry.has_content(aspect),
        }
    }

    /// Takes a fact in, if it does not contradict what is known.
    pub(crate) fn learn(&mut self, path: &Path, fact: Fact) -> Learned {
        if let Some(entry) = self.by_path.get_mut(path) {
            return entry.learn(fact);
        }
        if self.by_path.len() >= self.entries_max {
            return Learned::Full;
        }
        let by_name = index(&fact);
        let entry = Entry {
            fact,
            by_name,
            complete: None,
            arriving: None,
            fact_at: Audience::default(),
            content_at: Audience::default(),
        };
        self.by_path.insert(path.clone(), entry);
        Learned::New
    }

    /// What the directory that holds `path` says about its name.
    pub(crate) fn lookup(&self, path: &Path) -> Lookup<'_> {
        let Some(directory) = path.parent().and_then(|p| self.by_path.get(&p)) else { return Lookup::Unknown };
        match &directory.fact {
            Fact::Unlistable(_) => Lookup::Unlistable,
            Fact::Listing(_, listing) => {
                let name = path.name();
                match directory.by_name.binary_search_by(|&n| (*listing.names[n as usize].name).cmp(name)) {
                    Ok(at) => Lookup::Found(&listing.names[directory.by_name[at] as usize]),
                    Err(_) => Lookup::Missing,
                }
            }
            _ => Lookup::Unknown,
        }
    }

    /// The known inode of a path, from its attributes or from its directory's listing.
    pub(crate) fn inode_hint(&self, path: &Path) -> Option<Inode> {
        if let Some(entry) = self.get(path) {
            return entry.attr().map(inode_of);
        }
        let Lookup::Found(name) = self.lookup(path) else { return None };
        let directory = self.get(&path.parent()?)?.attr()?;
        Some((directory.dev_major, directory.dev_minor, name.ino))
    }

    /// The inode of a path that may be one of several names of a file.
    pub(crate) fn shared_inode(&self, path: &Path) -> Option<Inode> {
        let is_single = |entry: &Entry| !entry.is_file() || entry.attr().is_none_or(|attr| attr.nlink < 2);
        self.inode_hint(path).filter(|_| self.get(path).is_none_or(|entry| !is_single(entry)))
    }

    /// Known names of the file with this inode, if it has several.
    pub(crate) fn names_of(&self, inode: Inode) -> impl Iterator<Item = &Path> {
        let is_name = move |entry: &Entry| {
            entry.is_file() && entry.attr().is_some_and(|attr| attr.nlink > 1 && inode_of(attr) == inode)
        };
        self.by_path.iter().filter(move |(_, entry)| is_name(entry)).map(|(path, _)| path)
    }

    /// Known paths below `ancestor`.
    pub(crate) fn descendants<'a>(&'a self, ancestor: &'a Path) -> impl Iterator<Item = &'a Path> {
        let prefix = ancestor.as_bytes();
        self.by_path
            .range(ancestor.clone()..)
            .map(|(path, _)| path)
            .take_while(move |path| path.as_bytes().starts_with(prefix))
            .filter(move |path| *path != ancestor && path.is_within(ancestor))
    }
}

impl Entry {
    pub(crate) fn attr(&self) -> Option<&Attr> {
        match &self.fact {
            Fact::Absent | Fact::Error(_) => None,
            Fact::Attr(attr) | Fact::Link(attr, _) | Fact::Listing(attr, _) | Fact::Unlistable(attr) => Some(attr),
        }
    }

    pub(crate) fn is_file(&self) -> bool {
        matches!(&self.fact, Fact::Attr(attr) if attr.kind() == Kind::File)
    }

    /// Whether complete content covers this aspect.
    pub(crate) fn has_content(&self, aspect: Aspect) -> bool {
        self.complete.as_ref().is_some_and(|c| covers(&c.head, aspect))
    }

    /// The head of the content, complete or arriving, that covers this aspect.
    pub(crate) fn head_for(&self, aspect: Aspect) -> Option<&Arc<FileHead>> {
        let complete = self.complete.as_ref().map(|c| &c.head);
        let arriving = self.arriving.as_ref().map(|a| &a.head);
        complete.into_iter().chain(arriving).find(|head| covers(head, aspect))
    }

    /// How much of the content described by `head` is in the store; `None` if it has gone.
    pub(crate) fn available(&self, head: &Arc<FileHead>) -> Option<u64> {
        if self.has_content(aspect_of(head)) {
            return Some(head.content_bytes());
        }
        self.arriving.as_ref().filter(|a| Arc::ptr_eq(&a.head, head)).map(|a| a.position)
    }

    fn learn(&mut self, fact: Fact) -> Learned {
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
        self.by_name = index(&grown);
        self.fact = grown;
        self.fact_at = Audience::default();
        Learned::New
    }
}

/// The aspect that content with this head is.
pub(crate) fn aspect_of(head: &FileHead) -> Aspect {
    if head.whole { Aspect::Whole } else { Aspect::Loadable }
}

/// Whether content with this head is enough for `aspect`.
pub(crate) fn covers(head: &FileHead, aspect: Aspect) -> bool {
    head.whole || aspect == Aspect::Loadable
}

/// Whether a fact is well-formed: kinds agree, and a listing's names are names.
pub(crate) fn is_sound(fact: &Fact) -> bool {
    match fact {
        Fact::Absent => true,
        Fact::Error(errno) => *errno != 0,
        Fact::Attr(attr) => attr.kind() != Kind::Link,
        Fact::Link(attr, target) => attr.kind() == Kind::Link && !target.is_empty() && !target.contains(&0),
        Fact::Unlistable(attr) => attr.kind() == Kind::Dir,
        Fact::Listing(attr, listing) => {
            let bytes: usize = listing.names.iter().map(|n| n.name.len()).sum();
            let is_name = |n: &Name| !n.name.is_empty() && !n.name.iter().any(|&b| b == b'/' || b == 0);
            attr.kind() == Kind::Dir
                && listing.names.len() <= LISTING_NAMES_MAX
                && bytes <= LISTING_BYTES_MAX
                && listing.names.iter().all(|n| n.name.len() <= usize::from(u8::MAX) && is_name(n))
        }
    }
}

/// Whether two looks at a file saw the same bytes. Access times differ by looking.
pub(crate) fn is_same_version(a: &Attr, b: &Attr) -> bool {
    let version = |a: &Attr| (inode_of(a), a.mode, a.size, a.mtime, a.ctime);
    version(a) == version(b)
}

pub(crate) fn inode_of(attr: &Attr) -> Inode {
    (attr.dev_major, attr.dev_minor, attr.ino)
}

fn is_same_directory(a: &Attr, b: &Attr) -> bool {
    a.kind() == Kind::Dir && b.kind() == Kind::Dir && inode_of(a) == inode_of(b)
}

fn index(fact: &Fact) -> Box<[u32]> {
    let Fact::Listing(_, listing) = fact else { return Box::default() };
    let mut numbers: Vec<u32> = (0..listing.names.len() as u32).collect();
    numbers.sort_by(|&a, &b| listing.names[a as usize].name.cmp(&listing.names[b as usize].name));
    numbers.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use headwater_abi::Listing;
    use headwater_abi::attr::mode;

    fn path(text: &str) -> Path {
        Path::new(text.as_bytes()).unwrap()
    }

    fn attr(kind: u32, ino: u64) -> Attr {
        Attr { mode: kind, ino, ..Attr::default() }
    }

    fn listing(ino: u64, names: &[&str]) -> Fact {
        let name = |n: &&str| Name { ino: 1, d_type: 0, name: n.as_bytes().into() };
        Fact::Listing(attr(mode::DIR, ino), Arc::new(Listing { names: names.iter().map(name).collect() }))
    }

    #[test]
    fn an_entry_only_grows() {
        let check = |first: Fact, second: Fact, becomes: Learned| {
            let mut entries = Entries::new(1);
            assert_eq!(entries.learn(&path("/a"), first.clone()), Learned::New);
            assert_eq!(entries.learn(&path("/a"), second.clone()), becomes, "{first:?} then {second:?}");
            let stays = entries.fact(&path("/a")) == Some(&first);
            assert_eq!(stays, becomes != Learned::New);
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

    #[test]
    fn names_are_looked_up_in_their_directory() {
        let mut entries = Entries::new(3);
        entries.learn(&path("/a"), listing(1, &["z", "lib", "a.so"]));
        entries.learn(&path("/a/u"), Fact::Unlistable(attr(mode::DIR, 2)));
        assert!(matches!(entries.lookup(&path("/a/lib")), Lookup::Found(name) if *name.name == *b"lib"));
        assert_eq!(entries.lookup(&path("/a/li")), Lookup::Missing);
        assert_eq!(entries.lookup(&path("/a/u/x")), Lookup::Unlistable);
        assert_eq!(entries.lookup(&path("/b/x")), Lookup::Unknown);
    }

    #[test]
    fn descendants_are_those_below_and_no_neighbours() {
        let mut entries = Entries::new(9);
        let all = ["/a", "/a-b", "/a/b", "/a/b/c", "/a0", "/b"];
        all.iter().for_each(|p| assert_eq!(entries.learn(&path(p), Fact::Absent), Learned::New));
        let below: Vec<Path> = entries.descendants(&path("/a")).cloned().collect();
        assert_eq!(below, vec![path("/a/b"), path("/a/b/c")]);
        assert_eq!(entries.descendants(&Path::root()).count(), all.len());
    }
}
