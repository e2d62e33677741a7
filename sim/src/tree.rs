//! The model of the shared file system: a tree that does not change by itself, except that reading sets
//! access times.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headwater_abi::attr::mode;
use headwater_abi::listing::d_type;
use headwater_abi::wire::{Aspect, BLOCK_BYTES, Fact, FileHead};
use headwater_abi::{Attr, Kind, Listing, Name, Path};

use crate::random::Random;

const ENOENT: u16 = 2;
const EACCES: u16 = 13;
const EINVAL: u16 = 22;
const ENOTDIR: u16 = 20;

#[derive(Clone, Debug)]
pub(crate) enum Item {
    Dir { attr: Attr, is_listable: bool },
    Link { attr: Attr, target: Vec<u8> },
    File { attr: Attr, is_readable: bool, loadable: Option<Arc<[(u64, u64)]>> },
}

/// All paths.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    items: BTreeMap<Path, Item>,
    /// Whether listings have the types of their names.
    is_typed: bool,
}

impl Tree {
    /// Draws a tree below `/sw`.
    pub(crate) fn random(random: &mut Random) -> Tree {
        let mut tree = Tree { items: BTreeMap::new(), is_typed: random.chance(800) };
        let root = Path::new(b"/sw").expect("an absolute path");
        let attr = tree.attr(mode::DIR, 0);
        tree.items.insert(root.clone(), Item::Dir { attr, is_listable: true });
        let mut directories = vec![root];
        // Now and then most lies in one directory.
        let (names, directories_max) = if random.chance(250) { (100, 2) } else { (40, 12) };
        for number in 0..3 + random.below(names) {
            let parent = random.pick(&directories).clone();
            let Some(path) = parent.join(format!("n{number}").as_bytes()) else { continue };
            let item = tree.random_item(random);
            if matches!(item, Item::Dir { .. }) && directories.len() < directories_max {
                directories.push(path.clone());
            }
            tree.items.insert(path, item);
        }
        tree
    }

    fn random_item(&self, random: &mut Random) -> Item {
        match random.below(100) {
            0..25 => Item::Dir { attr: self.attr(mode::DIR, 0), is_listable: random.chance(900) },
            25..40 => Item::Link { attr: self.attr(mode::LINK, 0), target: self.random_target(random) },
            40..50 => self.hard_link(random),
            _ => self.random_file(random),
        }
    }

    fn random_file(&self, random: &mut Random) -> Item {
        let size = match random.below(40) {
            0 | 1 => random.below(3 * BLOCK_BYTES),
            2..10 => random.below(3),
            10..20 => random.below(1 << 20),
            _ => random.below(5000),
        };
        let part = size / 4;
        let has_holes = part > 0 && random.chance(500);
        let loadable = has_holes.then(|| Arc::from([(0, part), (2 * part, part)]));
        Item::File { attr: self.attr(mode::FILE, size), is_readable: random.chance(950), loadable }
    }

    fn hard_link(&self, random: &mut Random) -> Item {
        let files: Vec<&Item> = self.items.values().filter(|i| matches!(i, Item::File { .. })).collect();
        match files.is_empty() {
            true => self.random_file(random),
            false => (*random.pick(&files)).clone(),
        }
    }

    fn random_target(&self, random: &mut Random) -> Vec<u8> {
        let paths: Vec<&Path> = self.items.keys().collect();
        let path = *random.pick(&paths);
        match random.below(10) {
            0 => b"nowhere/at/all".to_vec(),
            1 => b"/etc/outside".to_vec(),
            2 => b"..".to_vec(),
            3..6 => [b"../", path.name()].concat(),
            6 => path.name().to_vec(),
            _ => path.as_bytes().to_vec(),
        }
    }

    fn attr(&self, kind: u32, size: u64) -> Attr {
        Attr { mode: kind | 0o755, nlink: 1, ino: self.items.len() as u64 + 10, size, dev_major: 8, ..Attr::default() }
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.items.keys()
    }

    pub(crate) fn item(&self, path: &Path) -> Option<&Item> {
        self.items.get(path)
    }

    /// Returns whether a file still has these attributes.
    pub(crate) fn is_current(&self, path: &Path, attr: &Attr) -> bool {
        matches!(self.items.get(path), Some(Item::File { attr: now, .. })
            if (now.ino, now.size, now.mtime) == (attr.ino, attr.size, attr.mtime))
    }

    /// Returns the tree after a file has changed under all its names, or one name was removed.
    pub(crate) fn changed(&self, random: &mut Random) -> Tree {
        let mut tree = self.clone();
        let files: Vec<&Path> =
            self.items.iter().filter(|(_, i)| matches!(i, Item::File { .. })).map(|f| f.0).collect();
        if files.is_empty() {
            return tree;
        }
        let path = *random.pick(&files);
        let Some(Item::File { attr: before, .. }) = self.items.get(path) else { return tree };
        if self.read_attr(before, 0).nlink < 2 && random.chance(300) {
            tree.items.remove(path);
            if let Some(Item::Dir { attr, .. }) = path.parent().and_then(|at| tree.items.get_mut(&at)) {
                attr.mtime.0 += 1;
            }
            return tree;
        }
        for item in tree.items.values_mut() {
            if let Item::File { attr, loadable, .. } = item
                && attr.ino == before.ino
            {
                (attr.mtime.0, attr.size, *loadable) = (attr.mtime.0 + 1, before.size + 1, None);
            }
        }
        tree
    }

    /// Returns the paths that differ in another version.
    pub(crate) fn differences(&self, other: &Tree) -> Vec<Path> {
        let paths: BTreeSet<&Path> = self.items.keys().chain(other.items.keys()).collect();
        let differs = |path: &&&Path| {
            self.entry(path, 0) != other.entry(path, 0) || self.listing(path, 0) != other.listing(path, 0)
        };
        paths.iter().filter(differs).map(|path| (*path).clone()).collect()
    }

    /// Returns the attributes that a read at `now` sees.
    fn read_attr(&self, attr: &Attr, now: u64) -> Attr {
        let same = |item: &&Item| matches!(item, Item::File { attr: other, .. } if other.ino == attr.ino);
        let nlink = if attr.kind() == Kind::File { self.items.values().filter(same).count() as u32 } else { 2 };
        Attr { atime: (now as i64, 0), nlink, ..*attr }
    }

    /// Returns what the reader sees of an entry.
    pub(crate) fn entry(&self, path: &Path, now: u64) -> Fact {
        let is_below_a_file = || {
            std::iter::successors(path.parent(), Path::parent)
                .any(|p| matches!(self.items.get(&p), Some(Item::File { .. } | Item::Link { .. })))
        };
        match self.items.get(path) {
            None if is_below_a_file() => Fact::Error(ENOTDIR),
            None => Fact::Absent,
            Some(Item::Dir { attr, .. } | Item::File { attr, .. }) => Fact::Attr(self.read_attr(attr, now)),
            Some(Item::Link { attr, target }) => Fact::Link(self.read_attr(attr, now), target.clone().into()),
        }
    }

    /// Returns what the reader sees of a directory's names.
    pub(crate) fn listing(&self, path: &Path, now: u64) -> Fact {
        match self.items.get(path) {
            Some(Item::Dir { attr, is_listable: false }) => Fact::Unlistable(self.read_attr(attr, now)),
            Some(Item::Dir { attr, .. }) => {
                let names = self.items.iter().filter(|(p, _)| p.parent().as_ref() == Some(path));
                let names = names.map(|(p, item)| self.name(p, item)).collect::<Listing>();
                Fact::Listing(self.read_attr(attr, now), names)
            }
            _ => self.entry(path, now),
        }
    }

    fn name<'a>(&self, path: &'a Path, item: &Item) -> Name<'a> {
        let (ino, d_type) = match item {
            Item::Dir { attr, .. } => (attr.ino, d_type::DIR),
            Item::Link { attr, .. } => (attr.ino, d_type::LINK),
            Item::File { attr, .. } => (attr.ino, d_type::FILE),
        };
        let d_type = if self.is_typed { d_type } else { d_type::UNKNOWN };
        Name { ino, d_type, name: path.name() }
    }

    /// Returns what the reader sees when it opens a file, or an error number.
    pub(crate) fn open(&self, path: &Path, aspect: Aspect, now: u64) -> Result<FileHead, u16> {
        match self.items.get(path) {
            Some(Item::File { attr, is_readable: true, loadable }) => {
                let all = if attr.size > 0 { vec![(0, attr.size)] } else { Vec::new() };
                let loadable = loadable.clone().filter(|_| aspect == Aspect::Loadable);
                let ranges = loadable.clone().unwrap_or_else(|| all.into());
                let head = FileHead { attr: self.read_attr(attr, now), format: 0, whole: loadable.is_none(), ranges };
                match aspect {
                    Aspect::Block(number) => head.block(number).ok_or(EINVAL),
                    _ => Ok(head),
                }
            }
            Some(_) => Err(EACCES),
            None => Err(ENOENT),
        }
    }
}

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Absent,
    Error,
    /// Out of the scope, or in a cycle.
    Original,
    /// The job changes it.
    Passthrough,
    /// Not known yet.
    Unknown,
    /// To this canonical path.
    Found(Path),
}

/// A path's state, without following links.
#[derive(Clone, Debug)]
pub(crate) enum PathState {
    Unknown,
    Absent,
    Error,
    Passthrough,
    Link(Vec<u8>),
    Dir,
    Other,
}

impl PathState {
    /// Returns the state that a fact shows.
    pub(crate) fn of(fact: &Fact) -> PathState {
        match fact {
            Fact::Absent => PathState::Absent,
            Fact::Error(_) => PathState::Error,
            Fact::Link(_, target) => PathState::Link(target.to_vec()),
            Fact::Attr(attr) if attr.kind() != Kind::Dir => PathState::Other,
            Fact::Attr(_) | Fact::Listing(..) | Fact::Unlistable(_) => PathState::Dir,
        }
    }
}

/// Follows a path from the top of the scope, as a reader of the table does.
pub(crate) fn resolve(
    path: &Path,
    follows: bool,
    in_scope: impl Fn(&Path) -> bool,
    state_of: impl Fn(&Path) -> PathState,
) -> Outcome {
    let mut todo: Vec<Vec<u8>> = path.components().map(<[u8]>::to_vec).rev().collect();
    let (mut at, mut links) = (Path::root(), 0);
    loop {
        let is_last = todo.is_empty();
        // A path whose text is out of the scope is not served, wherever its links lead.
        let text = todo.iter().rev().try_fold(at.clone(), |path, name| path.join(name));
        if text.is_none_or(|text| !in_scope(&text)) {
            return Outcome::Original;
        }
        if in_scope(&at) {
            match state_of(&at) {
                PathState::Unknown => return Outcome::Unknown,
                PathState::Absent => return Outcome::Absent,
                PathState::Passthrough => return Outcome::Passthrough,
                PathState::Error => return Outcome::Error,
                PathState::Link(target) if !is_last || follows => {
                    links += 1;
                    if links > 40 {
                        return Outcome::Original;
                    }
                    let names = target.split(|&b| b == b'/').filter(|c| !c.is_empty() && *c != b".").rev();
                    todo.extend(names.map(<[u8]>::to_vec));
                    at = if target.first() == Some(&b'/') {
                        Path::root()
                    } else {
                        at.parent().unwrap_or_else(Path::root)
                    };
                }
                PathState::Dir if !is_last => {}
                PathState::Other if !is_last => return Outcome::Error,
                PathState::Link(_) | PathState::Dir | PathState::Other => return Outcome::Found(at),
            }
        } else if !at.as_bytes().eq(b"/") || is_last {
            return Outcome::Original;
        }
        while todo.last().is_some_and(|name| name == b"..") {
            todo.pop();
            at = at.parent().unwrap_or_else(Path::root);
        }
        if let Some(name) = todo.pop() {
            let Some(next) = at.join(&name) else { return Outcome::Original };
            at = next;
        }
    }
}
