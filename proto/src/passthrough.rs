//! Passthrough paths: the job changes them, or their source files changed. They are served from the source
//! files.

use alloc::collections::{BTreeMap, BTreeSet};

use headwater_abi::Path;

use crate::entry::Inode;

/// The share of the remaining passthrough paths that one directory may take.
const SHARE: usize = 4;

/// The passthrough paths.
#[derive(Debug, Default)]
pub(crate) struct PassthroughPaths {
    /// By path: whether everything below it is passed through too.
    paths: BTreeMap<Path, bool>,
    /// Directories whose names the job changes, and how many of them.
    directories: BTreeMap<Path, usize>,
    /// Files that are written; their other names lead to the same bytes.
    inodes: BTreeSet<Inode>,
    trees: usize,
    /// Paths that neither this node nor one below changes: the parent reported them, or the root found them
    /// changed. A later generation may serve them again.
    from_above: BTreeSet<Path>,
}

impl PassthroughPaths {
    /// Adds a path that is not covered in this form yet.
    pub(crate) fn insert(&mut self, path: &Path, tree: bool, is_from_above: bool) {
        // A tree remains a tree when its root is reported alone later.
        let was = self.paths.get(path).copied();
        let was_tree = was == Some(true);
        self.paths.insert(path.clone(), tree || was_tree);
        if let Some(directory) = path.parent().filter(|_| was.is_none()) {
            *self.directories.entry(directory).or_default() += 1;
        }
        self.trees += usize::from(tree && !was_tree);
        if is_from_above {
            self.from_above.insert(path.clone());
        } else {
            self.from_above.remove(path);
        }
    }

    /// Removes a path that a later generation serves again. False if this node or one below changes it.
    pub(crate) fn take_back(&mut self, path: &Path) -> bool {
        if !self.from_above.remove(path) {
            return false;
        }
        self.trees -= usize::from(self.paths.remove(path) == Some(true));
        if let Some(directory) = path.parent()
            && let Some(names) = self.directories.get_mut(&directory)
        {
            *names -= 1;
            if *names == 0 {
                self.directories.remove(&directory);
            }
        }
        true
    }

    /// Returns whether another name of this directory would exceed its share of `paths_max`: a [`SHARE`]th of
    /// what other directories leave. Removed names count, because processes that cached them have to check
    /// again.
    pub(crate) fn is_crowded(&self, directory: &Path, paths_max: usize) -> bool {
        let names = self.directories.get(directory).copied().unwrap_or_default();
        names * SHARE >= paths_max.saturating_sub(self.paths.len() - names)
    }

    /// Returns whether this is a passthrough path that this node or one below changes.
    pub(crate) fn is_own(&self, path: &Path) -> bool {
        self.paths.contains_key(path) && !self.from_above.contains(path)
    }

    /// Returns the paths that the parent reported or the root found changed.
    pub(crate) fn inherited(&self) -> impl Iterator<Item = &Path> {
        self.from_above.iter()
    }

    /// Returns whether the source file serves this path.
    pub(crate) fn covers(&self, path: &Path) -> bool {
        !self.paths.is_empty() && (self.paths.contains_key(path) || (self.trees > 0 && self.is_in_tree(path)))
    }

    fn is_in_tree(&self, path: &Path) -> bool {
        core::iter::successors(Some(path.clone()), Path::parent).any(|p| self.paths.get(&p) == Some(&true))
    }

    /// Returns the passthrough path by which the source file serves this path, and whether it is a tree.
    pub(crate) fn covering(&self, path: &Path) -> Option<(Path, bool)> {
        if !self.covers(path) {
            return None;
        }
        let mut above = core::iter::successors(Some(path.clone()), Path::parent);
        let tree = above.find(|path| self.paths.get(path) == Some(&true));
        Some(tree.map_or_else(|| (path.clone(), false), |tree| (tree, true)))
    }

    /// Returns whether this path, and with `tree` all below it, is already noted as changed. A report from
    /// here or below covers one from above; the inverse does not hold.
    pub(crate) fn covers_as(&self, path: &Path, tree: bool, is_from_above: bool) -> bool {
        match self.paths.get(path) {
            Some(&known) if (known || !tree) && (is_from_above || self.is_own(path)) => true,
            _ => {
                let is_tree = |above: &Path| self.paths.get(above) == Some(&true) && self.is_own(above);
                self.trees > 0 && core::iter::successors(path.parent(), Path::parent).any(|above| is_tree(&above))
            }
        }
    }

    /// Returns whether a name that this directory's listing lacks may exist by now.
    pub(crate) fn changes_names_of(&self, directory: &Path) -> bool {
        self.directories.contains_key(directory)
    }

    pub(crate) fn extend_inodes(&mut self, inodes: BTreeSet<Inode>) {
        self.inodes.extend(inodes);
    }

    /// Returns whether this is a file that the job writes under another name.
    pub(crate) fn covers_inode(&self, inode: Inode) -> bool {
        self.inodes.contains(&inode)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Returns the paths that this node or one below changes: (path, everything below too).
    pub(crate) fn own(&self) -> impl Iterator<Item = (&Path, bool)> {
        self.iter().filter(|(path, _)| !self.from_above.contains(*path))
    }

    /// Returns all paths: (path, everything below too).
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Path, bool)> {
        self.paths.iter().map(|(path, &tree)| (path, tree))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_cover_paths_below() {
        let path = |text: &str| Path::new(text.as_bytes()).unwrap();
        let mut passthrough = PassthroughPaths::default();
        passthrough.insert(&path("/a/b"), false, false);
        assert!(
            passthrough.covers_as(&path("/a/b"), false, false) && !passthrough.covers_as(&path("/a/b"), true, false)
        );
        assert!(
            passthrough.covers(&path("/a/b"))
                && !passthrough.covers(&path("/a/b/c"))
                && !passthrough.covers(&path("/a"))
        );
        assert!(passthrough.changes_names_of(&path("/a")));
        passthrough.insert(&path("/a/b"), true, false);
        assert!(
            passthrough.covers_as(&path("/a/b"), true, false) && passthrough.covers_as(&path("/a/b/c"), true, true)
        );
        assert!(passthrough.covers(&path("/a/b/c/d")) && !passthrough.covers(&path("/a/bc")));
    }

    #[test]
    fn only_reports_from_above_are_taken_back() {
        let path = |text: &str| Path::new(text.as_bytes()).unwrap();
        let mut passthrough = PassthroughPaths::default();
        passthrough.insert(&path("/a/t"), true, true);
        passthrough.insert(&path("/a/f"), false, true);
        assert!(passthrough.covers(&path("/a/t/x")) && passthrough.covers_as(&path("/a/t"), true, true));
        assert!(
            !passthrough.covers_as(&path("/a/t/x"), false, false),
            "the job changes it, whatever becomes of the tree"
        );
        assert!(
            !passthrough.covers_as(&path("/a/t/x"), false, true) && !passthrough.covers_as(&path("/a/f"), false, false)
        );
        passthrough.insert(&path("/a/f"), false, false);
        passthrough.insert(&path("/a/u"), true, true);
        passthrough.insert(&path("/a/u"), false, false);
        assert!(passthrough.covers(&path("/a/u/x")), "a tree stays one");
        assert_eq!(passthrough.own().count(), 2);
        assert!(
            !passthrough.take_back(&path("/a/f"))
                && passthrough.take_back(&path("/a/t"))
                && !passthrough.take_back(&path("/a/t"))
        );
        assert!(
            passthrough.covers(&path("/a/f"))
                && !passthrough.covers(&path("/a/t/x"))
                && passthrough.changes_names_of(&path("/a"))
        );
    }

    #[test]
    fn a_directory_gets_a_share_of_the_remainder() {
        let path = |text: &str| Path::new(text.as_bytes()).unwrap();
        let mut passthrough = PassthroughPaths::default();
        let check = |passthrough: &PassthroughPaths, directory, expected| {
            assert_eq!(passthrough.is_crowded(&path(directory), 16), expected)
        };
        for name in ["/a/1", "/a/2", "/a/3", "/a/3"] {
            passthrough.insert(&path(name), false, true);
            check(&passthrough, "/a", false);
        }
        passthrough.insert(&path("/a/4"), false, false);
        check(&passthrough, "/a", true);
        assert!(passthrough.take_back(&path("/a/1")));
        check(&passthrough, "/a", false);
        ["/b/1", "/b/2", "/b/3", "/c/1"].iter().for_each(|name| passthrough.insert(&path(name), false, false));
        check(&passthrough, "/a", true);
        check(&passthrough, "/c", false);
        ["/d/1", "/e/1", "/f/1", "/g/1", "/h/1", "/i/1", "/j/1", "/k/1", "/l/1"]
            .iter()
            .for_each(|name| passthrough.insert(&path(name), false, false));
        check(&passthrough, "/new", true);
    }
}
