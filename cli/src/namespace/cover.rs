//! Binds the view over the directories of a scope.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, UnmountFlags, move_mount, open_tree, unmount};

/// A directory of a scope, without links.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CoveredDirectory {
    depth: usize,
    path: PathBuf,
    is_included: bool,
}

/// Binds the part of `view` over each included directory. Binds over each excluded one its original tree, with all
/// mounts in it.
///
/// The view has no other place then: a mount within `/dev/shm` would keep containers from binding that directory alone.
///
/// # Errors
/// A directory can't be covered. The mount namespace is then incomplete.
pub fn cover(view: &Path, scope: &[(bool, String)]) -> Result<()> {
    let directories = directories(scope);
    // Opens all before the first is covered: afterwards the covered directories can't be reached.
    let mut trees = BTreeMap::new();
    for directory in directories.iter().filter(|directory| directory.is_included) {
        trees.extend(tree(view, directory)?.map(|tree| (directory, tree)));
    }
    if !trees.is_empty() {
        unmount(view, UnmountFlags::DETACH).with_context(|| format!("{} can't be unmounted", view.display()))?;
    }
    for directory in directories.iter().filter(|directory| !directory.is_included) {
        trees.extend(tree(view, directory)?.map(|tree| (directory, tree)));
    }
    for (directory, tree) in &trees {
        attach_tree(tree, &directory.path).with_context(|| format!("{} can't be covered", directory.path.display()))?;
    }
    Ok(())
}

/// Returns the scope's existing directories, outer ones first.
fn directories(scope: &[(bool, String)]) -> BTreeSet<CoveredDirectory> {
    let directory = |(is_included, path): &(bool, String)| {
        let path = Path::new(path).canonicalize().ok()?;
        Some(CoveredDirectory { depth: path.components().count(), path, is_included: *is_included })
    };
    scope.iter().filter_map(directory).collect()
}

/// Returns the tree to bind over a directory; `None` if the directory is gone.
fn tree(view: &Path, directory: &CoveredDirectory) -> Result<Option<OwnedFd>> {
    let (path, flags) = if directory.is_included {
        (view.join(directory.path.strip_prefix("/").unwrap_or(&directory.path)), OpenTreeFlags::empty())
    } else {
        // A user namespace may bind it only with all mounts in it.
        (directory.path.clone(), OpenTreeFlags::AT_RECURSIVE)
    };
    let flags = flags | OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    match open_tree(CWD, &path, flags) {
        Ok(tree) => Ok(Some(tree)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno).with_context(|| format!("{} can't be bound", path.display())),
    }
}

fn attach_tree(tree: &OwnedFd, path: &Path) -> Result<(), Errno> {
    move_mount(tree, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    if path == Path::new("/") {
        // Only processes that enter later see the new root; the rest of the scope lies in it.
        rustix::process::fchdir(tree)?;
        rustix::process::chroot(".")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn places_are_canonical_outer_ones_first_and_once() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("sw/results/good")).unwrap();
        symlink(root.join("sw"), root.join("link")).unwrap();
        let scope = [(false, "sw/results"), (true, "sw/results/good"), (true, "link"), (true, "sw"), (true, "gone")];
        let scope: Vec<_> = scope.map(|(is_included, p)| (is_included, root.join(p).display().to_string())).into();
        let found: Vec<_> = directories(&scope).into_iter().map(|p| (p.is_included, p.path)).collect();
        let expected = [(true, "sw"), (false, "sw/results"), (true, "sw/results/good")];
        assert_eq!(found, expected.map(|(is_included, path)| (is_included, root.join(path))));
    }
}
