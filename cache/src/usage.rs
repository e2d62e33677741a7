//! What a cache holds, for people.

use std::io;
use std::path::{Path, PathBuf};

use crate::directory::{check_private, own_directory};
use crate::layout::VERSION;
use crate::quota::Quota;

/// What a user's cache holds, and what it may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The user's directory.
    pub directory: PathBuf,
    /// Contents: files, or parts of files.
    pub contents: usize,
    /// The bytes that they take.
    pub bytes: u64,
    /// The most that they may take.
    pub bytes_max: u64,
}

impl Usage {
    /// Returns what the user's cache below `dir` holds, of at most `bytes_max` bytes, or the default if that is `None`.
    /// Without a cache there it holds nothing. Nothing is created.
    ///
    /// # Errors
    /// The directory is open to other users, or its file system can't be examined.
    pub fn of(dir: &Path, bytes_max: Option<u64>) -> io::Result<Usage> {
        let directory = own_directory(dir);
        let is_there = match check_private(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            result => result.map(|()| true)?,
        };
        let root = if is_there { directory.join(VERSION) } else { dir.to_owned() };
        let quota = Quota::new(root, bytes_max);
        let (contents, bytes) = if is_there { quota.holds() } else { (0, 0) };
        Ok(Usage { directory, contents, bytes, bytes_max: quota.limit(bytes)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    use crate::{Cache, Key};
    use headwater_abi::wire::{Aspect, FileHead};
    use headwater_abi::{Attr, Path as SourcePath, attr::mode};

    #[test]
    fn it_has_what_was_kept() {
        let dir = tempfile::tempdir().unwrap();
        let empty = Usage::of(dir.path(), Some(1 << 20)).unwrap();
        assert_eq!((empty.contents, empty.bytes, empty.bytes_max), (0, 0, 1 << 20));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is created");
        let cache = Cache::open(dir.path(), None).unwrap();
        let attr = Attr { mode: mode::FILE, size: 1 << 20, ..Attr::default() };
        let head = FileHead { attr, format: 0, ranges: [(0, 1 << 20)].into(), whole: true };
        let key = Key::new(&SourcePath::new(b"/f").unwrap(), &attr, Aspect::Whole);
        assert!(cache.keep(key, &head, |_, _| Ok(())).unwrap());
        let usage = Usage::of(dir.path(), None).unwrap();
        assert_eq!((usage.contents, &usage.directory), (1, &own_directory(dir.path())));
        assert!((1 << 20..2 << 20).contains(&usage.bytes) && usage.bytes < usage.bytes_max, "{usage:?}");
    }

    #[test]
    fn what_others_may_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        drop(Cache::open(dir.path(), None).unwrap());
        let own = own_directory(dir.path());
        std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o755)).unwrap();
        let error = Usage::of(dir.path(), None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("is open to other users"), "{error}");
    }
}
