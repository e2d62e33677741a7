//! Mirrors of several generations.
//!
//! A new generation's mirror begins with all unchanged files of the one before. These are further names of the same
//! files, so they cost no memory, and later content appears in both mirrors. The older mirror stays as it is for its
//! processes.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::PathBuf;
use std::rc::Rc;

use headwater_abi::Path;
use rustix::fs::Mode;

use super::budget::Reservation;
use super::hidden::Hidden;
use super::paths::{DIRECTORY, below, of_domain};
use super::recent::OpenFiles;
use super::store::Store;
use crate::layout::NodeDir;

/// A generation's mirror.
#[derive(Debug)]
pub struct Mirror {
    prefix: PathBuf,
    root: Rc<OwnedFd>,
    /// Those of memory domains.
    domains: Vec<(u32, Rc<OwnedFd>)>,
    /// The paths of the previous mirror that it lacks.
    left: Vec<Path>,
    /// The room for its long links, by inode number.
    links: Vec<(u64, Reservation)>,
}

impl Store {
    /// Creates the mirror, and those of memory domains, for the generation selected in `dir`, without the paths that
    /// are `left_out`.
    pub fn next_mirror(&self, dir: &NodeDir, left_out: &dyn Fn(&Path) -> bool) -> io::Result<Mirror> {
        let prefix = dir.root();
        // Copies that are about to be removed are left out.
        let lacks = |path: &Path| left_out(path) || self.hidden.contains(path);
        let mut links = Vec::new();
        let (root, left) = self.next_tree((&self.prefix, &prefix), &prefix, &lacks, &mut links)?;
        let mut domains = Vec::new();
        for (domain, _) in &self.replicas.domains {
            let (from, to) = (of_domain(&self.prefix, *domain), of_domain(&prefix, *domain));
            let (root, _) = self.next_tree((&from, &to), &prefix, &lacks, &mut links)?;
            domains.push((*domain, root));
        }
        Ok(Mirror { prefix, root, domains, left, links })
    }

    /// Creates one tree of the mirror. Returns its root and the paths that it lacks. The first mirror will be at
    /// `prefix`.
    pub(super) fn next_tree(
        &self,
        (from, to): (&std::path::Path, &std::path::Path),
        prefix: &std::path::Path,
        lacks: &dyn Fn(&Path) -> bool,
        links: &mut Vec<(u64, Reservation)>,
    ) -> io::Result<(Rc<OwnedFd>, Vec<Path>)> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(to)?;
        let root = Rc::new(rustix::fs::open(to, DIRECTORY, Mode::empty())?);
        let (mut directories, mut left) = (vec![Path::root()], Vec::new());
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(below(from, &directory))? {
                let entry = entry?;
                let Some(path) = directory.join(entry.file_name().as_bytes()) else { continue };
                if lacks(&path) {
                    left.push(path);
                    continue;
                }
                let (kind, name) = (entry.file_type()?, below(to, &path));
                if kind.is_dir() {
                    fs::create_dir(&name)?;
                    fs::set_permissions(&name, entry.metadata()?.permissions())?;
                    directories.push(path);
                } else if kind.is_symlink() {
                    let target = fs::read_link(entry.path())?;
                    let [from, to, of, prefix] = [from, to, &self.prefix, prefix].map(|tree| self.dir.shown(tree));
                    let moved = moved(&target, &from, &to).or_else(|| moved(&target, &of, &prefix));
                    let target = moved.unwrap_or(target);
                    match self.make_link(target.as_os_str().as_bytes(), rustix::fs::CWD, &name) {
                        Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
                        made => links.extend(made?),
                    }
                } else {
                    fs::hard_link(entry.path(), &name)?;
                }
            }
        }
        Ok((root, left))
    }

    /// Switches to this mirror.
    pub fn begin_generation(&mut self, mirror: Mirror) {
        let left: HashSet<Path> = mirror.left.into_iter().collect();
        for path in &left {
            self.blocks.remove(path);
        }
        let is_left =
            |path: &Path| std::iter::successors(Some(path.clone()), Path::parent).any(|it| left.contains(&it));
        self.begin_replica_generation(mirror.domains, is_left);
        self.taken.extend(mirror.links);
        // Caches by path may have another version.
        (self.recent, self.sent) = Default::default();
        self.older.push(std::mem::replace(&mut self.prefix, mirror.prefix));
        (self.root, self.parents, self.hidden) = (mirror.root, OpenFiles::default(), Hidden::default());
    }

    /// Counts the mirror of an older generation, which a predecessor left.
    pub fn remember_generation(&mut self, dir: &NodeDir) {
        self.older.push(dir.root());
        for (_, metadata) in files(dir) {
            self.count_as(&metadata);
        }
    }

    /// Removes the mirror of an unused older generation.
    pub fn end_generation(&mut self, dir: &NodeDir) {
        let prefix = dir.root();
        self.older.retain(|older| *older != prefix);
        for (file, _) in files(dir) {
            if let Err(error) = self.remove_name(&file) {
                tracing::debug!(file = %file.display(), %error, "removed with its generation");
            }
        }
        if let Err(error) = dir.remove_generation() {
            let directory = dir.generation_dir();
            tracing::warn!(directory = %directory.display(), %error, "an older generation can't be removed and stays until the session ends. Check the permissions under --store");
        }
    }

    /// Returns the bytes of the copy of `path`.
    pub fn copy_bytes(&self, path: &Path) -> u64 {
        fs::symlink_metadata(self.copy_of(path)).map_or(0, |metadata| metadata.blocks() * 512)
    }

    /// Removes the names of `copy`, the evicted copy of `path`, from older mirrors.
    pub(super) fn remove_older(&mut self, path: &Path, copy: &std::path::Path) {
        let ino = |name: &std::path::Path| fs::symlink_metadata(name).map(|metadata| metadata.ino()).ok();
        let names: Vec<PathBuf> = self.older.iter().map(|older| below(older, path)).collect();
        for name in names {
            if ino(&name).is_some_and(|it| Some(it) == ino(copy))
                && let Err(error) = fs::remove_file(&name)
            {
                tracing::warn!(%path, %error, "an evicted file can't be removed from an older generation");
            }
        }
    }
}

/// Translates a link's target from below `from` to below `to`; `None` if it leads elsewhere.
fn moved(target: &std::path::Path, from: &std::path::Path, to: &std::path::Path) -> Option<PathBuf> {
    target.strip_prefix(from).ok().map(|rest| to.join(rest))
}

/// Returns a generation's files and links in all of its mirrors.
fn files(dir: &NodeDir) -> Vec<(PathBuf, fs::Metadata)> {
    let entries = |directory: PathBuf| fs::read_dir(directory).into_iter().flatten().flatten();
    let mirrors = entries(dir.content_dir()).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let (mut directories, mut found): (Vec<PathBuf>, _) = (mirrors.map(|entry| entry.path()).collect(), Vec::new());
    while let Some(directory) = directories.pop() {
        for entry in entries(directory) {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => directories.push(entry.path()),
                Ok(metadata) => found.push((entry.path(), metadata)),
                Err(_) => {}
            }
        }
    }
    found
}
