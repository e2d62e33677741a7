//! Reads entries and listings.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use headwater_abi::listing::Builder;
use headwater_abi::wire::{Detail, Fact};
use headwater_abi::{Attr, Kind, Name, Path};
use headwater_store::d_type_of;
use rustix::fs::{Mode, OFlags, RawDir, openat, readlinkat};
use rustix::io::Errno;

use crate::all_users::{self, Permission};
use crate::reader::Reader;

/// Bytes of directory entries that one call reads.
const LISTING_READ_BYTES: usize = 32 << 10;

impl Reader {
    /// Examines `path` without following a link.
    pub(super) fn entry(&self, path: &Path) -> Fact {
        self.retried(|| self.try_entry(path)).unwrap_or_else(fact_of)
    }

    /// Lists the directory `path`; examines the path if it is not a directory.
    pub(super) fn listing(&self, path: &Path) -> Fact {
        self.retried(|| self.try_listing(path)).unwrap_or_else(fact_of)
    }

    /// Examines these names of the directory `path`. Leaves out those that fail.
    pub(super) fn details(&self, path: &Path, names: Vec<Box<[u8]>>) -> Vec<Detail> {
        let detail = |name: Box<[u8]>| {
            let fact = self.entry(&path.join(&name)?);
            matches!(fact, Fact::Attr(_) | Fact::Link(..)).then_some(Detail { name, fact })
        };
        names.into_iter().filter_map(detail).collect()
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
        // The directory's name is looked up once, for its listing and for all below.
        let directory = match self.directories.open(path, OFlags::NOFOLLOW, &|| self.count_operation()) {
            Err(Errno::NOTDIR | Errno::LOOP) => return self.try_entry(path),
            // Not all users may search it; its parent has its attributes.
            Err(Errno::ACCESS) if self.for_all_users => {
                return Ok(match self.try_entry(path)? {
                    Fact::Attr(attr) if attr.kind() == Kind::Dir => Fact::Unlistable(attr),
                    other => other,
                });
            }
            result => result?,
        };
        let attr = self.attr(&directory, b"")?;
        if self.for_all_users && all_users::check(&directory, &attr, Permission::Read).is_err() {
            return Ok(Fact::Unlistable(attr));
        }
        let directory = match self.open_at(&directory, b".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC) {
            Err(Errno::ACCESS) => return Ok(Fact::Unlistable(attr)),
            result => result?,
        };
        if self.is_autofs(&attr) {
            return Ok(Fact::Unlistable(attr));
        }
        self.directories_read.fetch_add(1, Ordering::Relaxed);
        Ok(self.names(path, &directory, attr))
    }

    /// Returns true if the directory's names appear only when they are used. The kernel's list of mounts shows this
    /// without a request to a server.
    fn is_autofs(&self, attr: &Attr) -> bool {
        let device = (attr.dev_major, attr.dev_minor);
        let mut known = self.autofs_devices.lock().unwrap_or_else(PoisonError::into_inner);
        *known.entry(device).or_insert_with(|| {
            std::fs::read_to_string("/proc/self/mountinfo").is_ok_and(|mounts| is_autofs_in(&mounts, device))
        })
    }

    /// Reads all names. If that fails, the names are looked up one by one.
    fn names(&self, path: &Path, directory: &OwnedFd, attr: Attr) -> Fact {
        let mut buffer = vec![MaybeUninit::uninit(); LISTING_READ_BYTES];
        let mut entries = RawDir::new(directory, &mut buffer);
        let mut names = Builder::default();
        loop {
            if entries.is_buffer_empty() {
                self.count_operation();
            }
            let entry = match entries.next() {
                None => break,
                Some(Ok(entry)) => entry,
                Some(Err(error)) => {
                    tracing::warn!(%path, %error, "a directory can't be read to its end; its names are looked up one by one");
                    return Fact::Unlistable(attr);
                }
            };
            let (ino, d_type, name) = (entry.ino(), d_type_of(entry.file_type()), entry.file_name().to_bytes());
            if !names.push(Name { ino, d_type, name }) {
                return Fact::Unlistable(attr);
            }
        }
        Fact::Listing(attr, names.finish())
    }

    /// Returns the `O_PATH` descriptor of a known directory.
    pub(super) fn directory(&self, path: &Path) -> Result<Arc<OwnedFd>, Errno> {
        self.directories.open(path, OFlags::empty(), &|| self.count_operation())
    }

    /// Opens for reading, if possible without updating the access time.
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

/// Returns true if a device is an automounter's, given `/proc/self/mountinfo`; see proc(5).
fn is_autofs_in(mounts: &str, (major, minor): (u32, u32)) -> bool {
    let device = format!("{major}:{minor}");
    mounts.lines().any(|mount| {
        let (head, kind) = mount.split_once(" - ").unwrap_or((mount, ""));
        head.split(' ').nth(2) == Some(&device) && kind.split(' ').next() == Some("autofs")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn automounts_are_recognised() {
        let mounts = "24 1 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw\n\
                      35 24 0:31 / /home rw,relatime shared:2 - autofs /etc/auto.home rw,fd=6\n\
                      36 35 0:44 / /home/autofs rw - nfs4 server:/autofs rw\n";
        assert!(is_autofs_in(mounts, (0, 31)));
        assert!(!is_autofs_in(mounts, (259, 1)) && !is_autofs_in(mounts, (0, 44)) && !is_autofs_in(mounts, (0, 3)));
    }
}
