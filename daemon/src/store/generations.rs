//! Mirrors of several generations.
//!
//! A new generation's mirror begins with everything of the one before that has not changed: files as
//! further names of the same bytes, so that it costs no memory and what is filled in later is filled
//! in for both. The older mirror stays as it is for those who use it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::PathBuf;
use std::rc::Rc;

use headwater_abi::Path;
use rustix::fs::Mode;

use super::hidden::Hidden;
use super::recent::OpenFiles;
use super::{DIRECTORY, Store, lease};
use crate::layout::NodeDir;

/// A generation's mirror.
#[derive(Debug)]
pub(crate) struct Mirror {
    prefix: PathBuf,
    root: Rc<OwnedFd>,
    /// What it lacks of the one before.
    left: Vec<Path>,
}

impl Store {
    /// Makes the mirror of the generation that `dir` means, with everything that is not `left_out`.
    pub(crate) fn next_mirror(&self, dir: &NodeDir, left_out: &dyn Fn(&Path) -> bool) -> io::Result<Mirror> {
        let prefix = dir.root();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&prefix)?;
        let root = Rc::new(rustix::fs::open(&prefix, DIRECTORY, Mode::empty())?);
        let (mut directories, mut left) = (vec![Path::root()], Vec::new());
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(below(&self.prefix, &directory))? {
                let entry = entry?;
                let Some(path) = directory.join(entry.file_name().as_bytes()) else { continue };
                // Copies that are on their way out don't come along.
                if left_out(&path) || self.hidden.contains(&path) {
                    left.push(path);
                    continue;
                }
                let (kind, to) = (entry.file_type()?, below(&prefix, &path));
                if kind.is_dir() {
                    fs::create_dir(&to)?;
                    fs::set_permissions(&to, entry.metadata()?.permissions())?;
                    directories.push(path);
                } else if kind.is_symlink() {
                    symlink(self.moved_target(fs::read_link(entry.path())?, &prefix), &to)?;
                } else {
                    fs::hard_link(entry.path(), &to)?;
                }
            }
        }
        Ok(Mirror { prefix, root, left })
    }

    /// Goes on in this mirror.
    pub(crate) fn begin_generation(&mut self, mirror: Mirror) {
        for path in mirror.left {
            self.blocks.remove(&path);
        }
        // What is kept by its path may be another version by now.
        (self.recent, self.sent) = Default::default();
        self.older.push(std::mem::replace(&mut self.prefix, mirror.prefix));
        (self.root, self.parents, self.hidden) = (mirror.root, OpenFiles::default(), Hidden::default());
    }

    /// Knows the mirror of an older generation, which a predecessor left.
    pub(crate) fn remember_generation(&mut self, dir: &NodeDir) {
        self.older.push(dir.root());
        self.bytes += own_bytes(dir);
    }

    /// Removes the mirror of an older generation, which nobody uses any more.
    pub(crate) fn end_generation(&mut self, dir: &NodeDir) {
        let prefix = dir.root();
        self.older.retain(|older| *older != prefix);
        self.bytes = self.bytes.saturating_sub(own_bytes(dir));
        if let Err(error) = fs::remove_dir_all(dir.generation_dir()) {
            let directory = dir.generation_dir();
            tracing::warn!(directory = %directory.display(), %error, "an older generation can't be removed and stays until the session ends");
        }
    }

    /// Bytes that the copy of `path` takes.
    pub(crate) fn copy_bytes(&self, path: &Path) -> u64 {
        fs::symlink_metadata(self.copy_of(path)).map_or(0, |metadata| metadata.blocks() * 512)
    }

    /// Removes the names that `copy`, the evicted copy of `path`, has in older mirrors.
    pub(super) fn remove_older(&self, path: &Path, copy: &std::path::Path) {
        let ino = |name: &std::path::Path| fs::symlink_metadata(name).map(|metadata| metadata.ino()).ok();
        for name in self.older.iter().map(|older| below(older, path)) {
            if ino(&name).is_some_and(|it| Some(it) == ino(copy))
                && let Err(error) = fs::remove_file(&name)
            {
                tracing::warn!(%path, %error, "an evicted file could not be removed from an older generation");
            }
        }
    }

    /// Where a link of this mirror leads in the one below `prefix`.
    fn moved_target(&self, target: PathBuf, prefix: &std::path::Path) -> PathBuf {
        match target.strip_prefix(&self.prefix) {
            Ok(rest) => prefix.join(rest),
            Err(_) => target,
        }
    }
}

/// Bytes of a mirror's files that no other mirror has.
fn own_bytes(dir: &NodeDir) -> u64 {
    let (mut directories, mut bytes) = (vec![dir.root()], 0);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => directories.push(entry.path()),
                Ok(metadata) if metadata.is_file() && metadata.nlink() == 1 => bytes += metadata.blocks() * 512,
                _ => {}
            }
        }
    }
    bytes
}

/// Whether another process has this file open or mapped.
pub(crate) fn is_in_use(file: &std::path::Path) -> io::Result<bool> {
    match lease::take(&fs::File::open(file)?) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
        result => result.map(|()| false),
    }
}

/// The place of `path` in the mirror below `prefix`.
fn below(prefix: &std::path::Path, path: &Path) -> PathBuf {
    let mut place = prefix.as_os_str().to_owned();
    place.push(OsStr::from_bytes(path.as_bytes()));
    place.into()
}
