//! The state that the pool's threads share: open directories and files, counters, and shortages.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use headwater_abi::Attr;
use headwater_store::{ATTR_FIELDS, attr_at};
use rustix::fs::StatxFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::directories::Directories;
use crate::jobs::Opened;
use crate::sources::Sources;

/// How long to wait before trying again if this machine lacks descriptors or memory.
const SCARCE_WAIT: Duration = Duration::from_millis(100);
/// Such waits in succession; after that there are none until a call succeeds.
const SCARCE_WAITS_MAX: u32 = 20;

/// This rank's work on the shared file system; zero unless it is a reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedFs {
    /// Files opened for their content.
    pub files_read: u64,
    /// Directories listed.
    pub directories_read: u64,
    /// Bytes of content read.
    pub bytes_read: u64,
    /// System calls that can reach the file system's servers.
    pub operations: u64,
}

/// The reader of one daemon, shared by the pool's threads.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    pub(crate) directories: Directories,
    pub(crate) opened: Mutex<Opened>,
    /// Files that are read in blocks.
    pub(crate) sources: Sources,
    pub(crate) files_read: AtomicU64,
    pub(crate) directories_read: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
    pub(crate) operations: AtomicU64,
    /// Set once `O_NOATIME` was refused, because the files have another owner.
    pub(crate) noatime_refused: AtomicBool,
    /// Whether devices, by major and minor number, are an automounter's.
    pub(crate) autofs_devices: Mutex<HashMap<(u32, u32), bool>>,
    pub(crate) stopping: AtomicBool,
    /// Waits for descriptors or memory since the last success.
    pub(crate) scarce_waits: AtomicU32,
    /// Only what all users may read is read.
    pub(crate) for_all_users: bool,
    /// Other readers read parts of large files.
    pub(crate) shares_files: bool,
}

impl Reader {
    /// Creates a reader with these open files. With `for_all_users`, it reads only what all users may read; with
    /// `shares_files`, other readers read parts of large files.
    pub(crate) fn new(opened: Opened, for_all_users: bool, shares_files: bool) -> Reader {
        Reader {
            directories: Directories::new(for_all_users),
            opened: opened.into(),
            for_all_users,
            shares_files,
            ..Reader::default()
        }
    }

    pub(crate) fn counts(&self) -> SharedFs {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SharedFs {
            files_read: load(&self.files_read),
            directories_read: load(&self.directories_read),
            bytes_read: load(&self.bytes_read),
            operations: load(&self.operations),
        }
    }

    pub(crate) fn revalidate(&self) {
        self.directories.forget();
        self.sources.forget_all();
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn count_operation(&self) {
        self.operations.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the attributes of `name` in `directory`, or of `directory` itself if `name` is empty.
    pub(crate) fn attr(&self, directory: impl AsFd, name: &[u8]) -> Result<Attr, Errno> {
        self.statx(directory, name, ATTR_FIELDS)
    }

    /// Returns the attributes that show whether an open file has changed. A file system can answer these few from its
    /// caches; reading invalidates the access time, for instance.
    pub(crate) fn version(&self, file: impl AsFd) -> Result<Attr, Errno> {
        self.statx(file, b"", StatxFlags::INO | StatxFlags::SIZE | StatxFlags::MTIME)
    }

    fn statx(&self, directory: impl AsFd, name: &[u8], wanted: StatxFlags) -> Result<Attr, Errno> {
        self.count_operation();
        attr_at(directory, name, wanted)
    }

    /// Repeats `attempt` until its result is that of the shared file system. Shortages of this machine are no facts and
    /// are waited out for a while. Stale descriptors are opened again, once.
    pub(crate) fn retried<T>(&self, attempt: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        let mut stale = false;
        loop {
            match attempt() {
                Err(Errno::INTR) => {}
                Err(Errno::STALE) if !stale => {
                    stale = true;
                    self.directories.forget();
                }
                Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM) if self.waits_on() => {
                    self.directories.forget();
                    std::thread::sleep(SCARCE_WAIT);
                }
                Ok(done) => {
                    self.scarce_waits.store(0, Ordering::Relaxed);
                    return Ok(done);
                }
                result => return result,
            }
        }
    }

    /// Returns true if a shortage is to be waited out once more. Warns when it no longer is.
    fn waits_on(&self) -> bool {
        let waits = self.scarce_waits.fetch_add(1, Ordering::Relaxed);
        if waits == SCARCE_WAITS_MAX {
            tracing::warn!(
                "no file can be opened for want of descriptors or memory; processes use the source files. Raise the limit of open files (ulimit -n)"
            );
        }
        waits < SCARCE_WAITS_MAX && !self.stopping.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_is_waited_out_for_a_while() {
        let reader = Reader::default();
        let attempts = AtomicU32::new(0);
        let attempt = |until: u32| {
            let ends = attempts.fetch_add(1, Ordering::Relaxed) + 1 >= until;
            if ends { Ok(()) } else { Err(Errno::MFILE) }
        };
        assert_eq!(reader.retried(|| attempt(3)), Ok(()));
        assert_eq!(reader.retried(|| attempt(u32::MAX)), Err(Errno::MFILE));
        assert_eq!(attempts.swap(0, Ordering::Relaxed), 3 + SCARCE_WAITS_MAX + 1);
        assert_eq!(reader.retried(|| attempt(u32::MAX)), Err(Errno::MFILE), "at once");
        assert_eq!(attempts.load(Ordering::Relaxed), 1);
    }
}
