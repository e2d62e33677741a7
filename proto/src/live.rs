//! Paths that the job itself changes: the original serves them from then on.

use alloc::collections::{BTreeMap, BTreeSet};

use headwater_abi::Path;

use crate::entries::Inode;

/// The live paths.
#[derive(Debug, Default)]
pub(crate) struct Live {
    /// By path: whether everything below it is live too.
    paths: BTreeMap<Path, bool>,
    /// Directories whose names the job changes.
    directories: BTreeSet<Path>,
    /// Files that are written; their other names lead to the same bytes.
    inodes: BTreeSet<Inode>,
    trees: usize,
}

impl Live {
    /// Adds a path that is not covered as such yet.
    pub(crate) fn insert(&mut self, path: &Path, tree: bool) {
        self.paths.insert(path.clone(), tree);
        self.directories.extend(path.parent());
        self.trees += usize::from(tree);
    }

    /// Whether the original serves this path.
    pub(crate) fn covers(&self, path: &Path) -> bool {
        self.paths.contains_key(path) || (self.trees > 0 && self.is_in_tree(path))
    }

    fn is_in_tree(&self, path: &Path) -> bool {
        core::iter::successors(Some(path.clone()), Path::parent).any(|p| self.paths.get(&p) == Some(&true))
    }

    /// Whether it is known already that the job changes this path, and with `tree` all below it.
    pub(crate) fn covers_as(&self, path: &Path, tree: bool) -> bool {
        match self.paths.get(path) {
            Some(&known) if known || !tree => true,
            _ => self.trees > 0 && path.parent().is_some_and(|p| self.is_in_tree(&p)),
        }
    }

    /// Whether a name that this directory's listing lacks may exist by now.
    pub(crate) fn changes_names_of(&self, directory: &Path) -> bool {
        self.directories.contains(directory)
    }

    pub(crate) fn extend_inodes(&mut self, inode: Option<Inode>) {
        self.inodes.extend(inode);
    }

    /// Whether this is a file that the job writes under another name.
    pub(crate) fn covers_inode(&self, inode: Inode) -> bool {
        self.inodes.contains(&inode)
    }

    pub(crate) fn len(&self) -> usize {
        self.paths.len()
    }

    /// All of them: (path, everything below too).
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Path, bool)> {
        self.paths.iter().map(|(path, &tree)| (path, tree))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_cover_what_lies_below() {
        let path = |text: &str| Path::new(text.as_bytes()).unwrap();
        let mut live = Live::default();
        live.insert(&path("/a/b"), false);
        assert!(live.covers_as(&path("/a/b"), false) && !live.covers_as(&path("/a/b"), true));
        assert!(live.covers(&path("/a/b")) && !live.covers(&path("/a/b/c")) && !live.covers(&path("/a")));
        assert!(live.changes_names_of(&path("/a")));
        live.insert(&path("/a/b"), true);
        assert!(live.covers_as(&path("/a/b"), true) && live.covers_as(&path("/a/b/c"), true));
        assert!(live.covers(&path("/a/b/c/d")) && !live.covers(&path("/a/bc")));
    }
}
