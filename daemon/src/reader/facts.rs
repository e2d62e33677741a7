//! What a path is, and what a directory holds.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use headwater_abi::listing::{LISTING_BYTES_MAX, LISTING_NAMES_MAX};
use headwater_abi::wire::Fact;
use headwater_abi::{Attr, Kind, Listing, Name, Path};
use rustix::fs::{Mode, OFlags, RawDir, fstatfs, openat, readlinkat};
use rustix::io::Errno;

use super::Reader;

/// Bytes of directory entries that one call reads.
const LISTING_READ_BYTES: usize = 32 << 10;
/// `statfs` type of a directory whose names appear as they are used.
const AUTOFS_SUPER_MAGIC: u64 = 0x0187;

impl Reader {
    /// What `path` is, by its name alone.
    pub(super) fn entry(&self, path: &Path) -> Fact {
        self.retried(|| self.try_entry(path)).unwrap_or_else(fact_of)
    }

    /// All names of the directory `path`; or what the path is, if it is no directory.
    pub(super) fn listing(&self, path: &Path) -> Fact {
        self.retried(|| self.try_listing(path)).unwrap_or_else(fact_of)
    }

    fn try_entry(&self, path: &Path) -> Result<Fact, Errno> {
        let Some(parent) = path.parent() else {
            return self.attr(self.directory(path)?, b"").map(Fact::Attr);
        };
        let parent = self.directory(&parent)?;
        let attr = self.attr(&parent, path.name())?;
        if attr.kind() != Kind::Link {
            return Ok(Fact::Attr(attr));
        }
        self.count_operation();
        let target = readlinkat(&parent, path.name(), Vec::new())?;
        Ok(Fact::Link(attr, target.into_bytes().into()))
    }

    fn try_listing(&self, path: &Path) -> Result<Fact, Errno> {
        let directory = match self.open_directory(path) {
            Ok(directory) => directory,
            Err(Errno::NOTDIR | Errno::LOOP) => return self.try_entry(path),
            Err(Errno::ACCESS) => {
                return match self.try_entry(path)? {
                    Fact::Attr(attr) if attr.kind() == Kind::Dir => Ok(Fact::Unlistable(attr)),
                    fact => Ok(fact),
                };
            }
            Err(error) => return Err(error),
        };
        let attr = self.attr(&directory, b"")?;
        if fstatfs(&directory).is_ok_and(|fs| fs.f_type as u64 == AUTOFS_SUPER_MAGIC) {
            return Ok(Fact::Unlistable(attr));
        }
        self.directories_read.fetch_add(1, Ordering::Relaxed);
        Ok(self.names(path, &directory, attr))
    }

    /// A listing that breaks off is as good as none: its names are then looked up one by one.
    fn names(&self, path: &Path, directory: &OwnedFd, attr: Attr) -> Fact {
        let mut buffer = vec![MaybeUninit::uninit(); LISTING_READ_BYTES];
        let mut entries = RawDir::new(directory, &mut buffer);
        let (mut names, mut bytes) = (Vec::new(), 0);
        loop {
            if entries.is_buffer_empty() {
                self.count_operation();
            }
            let entry = match entries.next() {
                None => break,
                Some(Ok(entry)) => entry,
                Some(Err(error)) => {
                    tracing::warn!(%path, %error, "a directory could not be read to its end; each of its names is looked up");
                    return Fact::Unlistable(attr);
                }
            };
            let name: Box<[u8]> = entry.file_name().to_bytes().into();
            bytes += name.len() + 1;
            if names.len() == LISTING_NAMES_MAX || bytes > LISTING_BYTES_MAX {
                return Fact::Unlistable(attr);
            }
            names.push(Name { ino: entry.ino(), d_type: d_type(entry.file_type()), name });
        }
        names.shrink_to_fit();
        Fact::Listing(attr, Arc::new(Listing { names }))
    }

    fn open_directory(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match path.parent() {
            None => openat(self.directory(path)?, ".", flags, Mode::empty()),
            Some(parent) => self.open_at(&*self.directory(&parent)?, path.name(), flags),
        }
    }

    /// The `O_PATH` descriptor of a directory that is known to be one.
    pub(super) fn directory(&self, path: &Path) -> Result<Arc<OwnedFd>, Errno> {
        self.directories.open(path, &|| self.count_operation())
    }

    /// Opens for reading, without touching the access time where that is allowed.
    pub(super) fn open_at(&self, directory: &OwnedFd, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        if !self.noatime_refused.load(Ordering::Relaxed) {
            self.count_operation();
            match openat(directory, name, flags | OFlags::NOATIME, Mode::empty()) {
                Err(Errno::PERM) => self.noatime_refused.store(true, Ordering::Relaxed),
                result => return result,
            }
        }
        self.count_operation();
        openat(directory, name, flags, Mode::empty())
    }
}

fn fact_of(error: Errno) -> Fact {
    match error {
        Errno::NOENT => Fact::Absent,
        error => Fact::Error(error.raw_os_error() as u16),
    }
}

fn d_type(file_type: rustix::fs::FileType) -> u8 {
    // `DT_*` is the file type of the mode, shifted.
    match file_type {
        rustix::fs::FileType::Unknown => headwater_abi::listing::d_type::UNKNOWN,
        known => (known.as_raw_mode() >> 12) as u8,
    }
}
