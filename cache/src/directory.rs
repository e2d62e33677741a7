//! The cache's directory.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};

use crate::layout::{NAMES, OBJECTS, UNFINISHED, VERSION};
use crate::quota::Quota;

/// A user's cache on one node. Several processes may use it at once.
#[derive(Debug)]
pub struct Cache {
    pub(crate) root: PathBuf,
    pub(crate) quota: Mutex<Quota>,
    /// Nothing more is kept: the disk is full, or can't be written.
    pub(crate) is_full: AtomicBool,
    /// Numbers the files that this process writes.
    pub(crate) written: AtomicU64,
}

impl Cache {
    /// Opens the user's cache below `dir`, and creates it if it is missing. It keeps at most `bytes_max` bytes; `None`:
    /// a quarter of what the file system has free.
    ///
    /// # Errors
    /// The directory can't be made, or is open to other users.
    pub fn open(dir: &Path, bytes_max: Option<u64>) -> io::Result<Cache> {
        let own = own_directory(dir);
        let mut private = std::fs::DirBuilder::new();
        private.recursive(true).mode(0o700);
        private.create(&own)?;
        check_private(&own)?;
        let root = own.join(VERSION);
        for name in [NAMES, OBJECTS, UNFINISHED] {
            private.create(root.join(name))?;
        }
        let cache = Cache {
            quota: Mutex::new(Quota::new(root.clone(), bytes_max)),
            is_full: AtomicBool::new(false),
            written: AtomicU64::new(0),
            root,
        };
        cache.remove_unfinished();
        Ok(cache)
    }

    /// Returns the path of a file named by hexadecimal digits; its directory is made with the first.
    pub(crate) fn path(&self, kind: &str, name: &str) -> PathBuf {
        self.root.join(kind).join(&name[..2]).join(&name[2..])
    }
}

/// Returns the user's directory below `dir`.
pub(crate) fn own_directory(dir: &Path) -> PathBuf {
    dir.join(format!("headwater-{}", rustix::process::geteuid().as_raw()))
}

/// Fails unless the directory is this user's alone.
pub(crate) fn check_private(dir: &Path) -> io::Result<()> {
    let found = dir.symlink_metadata()?;
    let denied = |why: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{} {why}", dir.display())));
    if !found.is_dir() {
        return denied("is no directory");
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return denied("belongs to another user");
    }
    // Others could have put content there, under names that lead to it.
    if found.mode() & 0o077 != 0 {
        return denied("is open to other users; remove it");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn it_is_the_users_own() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(&dir.path().join("a/b"), Some(1)).unwrap();
        let own = cache.root.parent().unwrap();
        assert_eq!(own.metadata().unwrap().mode() & 0o777, 0o700);
        std::fs::set_permissions(own, Permissions::from_mode(0o777)).unwrap();
        assert_eq!(Cache::open(&dir.path().join("a/b"), Some(1)).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        std::fs::remove_dir_all(own).unwrap();
        std::os::unix::fs::symlink("/tmp", own).unwrap();
        assert_eq!(Cache::open(&dir.path().join("a/b"), Some(1)).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        std::fs::remove_file(own).unwrap();
        std::fs::write(own, "").unwrap();
        assert!(Cache::open(&dir.path().join("a/b"), Some(1)).is_err());
    }
}
