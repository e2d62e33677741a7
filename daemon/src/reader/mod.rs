//! Reading the shared file system: the only code that touches it.
//!
//! Every call blocks, so it runs on the threads of the [`Pool`]. Each order opens its file or reads
//! its directory once, at the cost of one look-up of the path's last component.

mod content;
mod directories;
mod everybody;
mod facts;
mod pool;
mod sources;

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headwater_abi::wire::{Aspect, Detail, Digest, Fact, FileHead};
use headwater_abi::{Attr, Path};
use rustix::fs::{AtFlags, Statx, StatxFlags, statx};
use rustix::io::Errno;

use self::directories::Directories;
pub(crate) use self::pool::Pool;
use self::sources::Sources;

use crate::report::SharedFs;
use headwater_store::Incoming;

/// How long to wait for this machine's descriptors or memory before trying again.
const SCARCE_WAIT: Duration = Duration::from_millis(100);
/// How often to wait in succession. Then nothing is waited for until something could be opened again.
const SCARCE_WAITS_MAX: u32 = 20;

/// What is to be read.
#[derive(Debug)]
pub(crate) enum Order {
    /// What a path is, by its name alone.
    Entry(Path),
    /// A directory's names.
    Listing(Path),
    /// What these names of a directory are.
    Details(Path, Vec<Box<[u8]>>),
    /// A file's content.
    File(FileOrder),
    /// The digest of content in the store.
    Digest(DigestOrder),
}

/// Content in the store whose digest is wanted.
#[derive(Debug)]
pub(crate) struct DigestOrder {
    pub(crate) path: Path,
    pub(crate) aspect: Aspect,
    pub(crate) head: FileHead,
    /// The store's copy, open.
    pub(crate) copy: File,
}

/// One file's content.
#[derive(Clone, Debug)]
pub(crate) struct FileOrder {
    pub(crate) path: Path,
    pub(crate) aspect: Aspect,
    /// What the store holds already.
    pub(crate) have: Option<FileHead>,
    pub(crate) execute: bool,
    /// Content of more bytes is not read.
    pub(crate) content_bytes_max: u64,
    /// Where the content goes.
    pub(crate) incoming: Arc<Incoming>,
}

impl FileOrder {
    /// The block that is to be read; `None` if it is the file in one piece.
    pub(crate) fn block(&self) -> Option<u32> {
        match self.aspect {
            Aspect::Block(number) => Some(number),
            _ => None,
        }
    }
}

/// News of an [`Order`].
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it lives for one call; boxing would cost more")]
pub(crate) enum News {
    /// The answer to an order for an entry or a listing.
    Fact(Path, Aspect, Fact),
    /// The answer to an order for details.
    Details(Path, Vec<Detail>),
    /// A step of an order for content.
    File(FileOrder, FileNews),
    /// The answer to an order for a digest; none if the copy can't be read.
    Digest(Path, Aspect, Option<Digest>),
}

/// What happens on the way of a [`FileOrder`].
#[derive(Debug)]
pub(crate) enum FileNews {
    /// It is open. If it is larger than was wanted, nothing follows.
    Opened(FileHead),
    /// The bytes up to this position of its content are in the store.
    Read(u64),
    /// It was opened, and all of its content is in the store.
    All(FileHead),
    /// It ended early.
    Failed(FileError),
}

/// Why a [`FileOrder`] ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileError {
    /// The shared file system said so.
    Original(Errno),
    /// The store could not take the content.
    Store,
    /// Nobody wants it any more.
    GivenUp,
}

/// Files that are open already, each to be read once.
pub(crate) type Opened = HashMap<Path, OwnedFd>;

/// The reader of one daemon, shared by the pool's threads.
#[derive(Debug, Default)]
struct Reader {
    directories: Directories,
    opened: Mutex<Opened>,
    /// Files that are read in blocks.
    sources: Sources,
    files_read: AtomicU64,
    directories_read: AtomicU64,
    bytes_read: AtomicU64,
    operations: AtomicU64,
    /// Set once `O_NOATIME` was refused: others own the software.
    noatime_refused: AtomicBool,
    /// Devices by major and minor number, and whether they are an automounter's.
    autofs_devices: Mutex<HashMap<(u32, u32), bool>>,
    stopping: AtomicBool,
    /// How often descriptors or memory were waited for since something was opened.
    scarce_waits: AtomicU32,
    /// What is read is given to everybody.
    for_everybody: bool,
}

impl Reader {
    /// With these files open. `for_everybody`: reads what everybody may read, and nothing else.
    fn new(opened: Opened, for_everybody: bool) -> Reader {
        let directories = if for_everybody { Directories::for_everybody() } else { Directories::default() };
        Reader { directories, opened: opened.into(), for_everybody, ..Reader::default() }
    }

    fn counts(&self) -> SharedFs {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SharedFs {
            files_read: load(&self.files_read),
            directories_read: load(&self.directories_read),
            bytes_read: load(&self.bytes_read),
            operations: load(&self.operations),
        }
    }

    fn look_anew(&self) {
        self.directories.forget();
        self.sources.forget_all();
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn count_operation(&self) {
        self.operations.fetch_add(1, Ordering::Relaxed);
    }

    /// The attributes of what `name` in `directory` is; of `directory` itself if `name` is empty.
    fn attr(&self, directory: impl AsFd, name: &[u8]) -> Result<Attr, Errno> {
        self.statx(directory, name, StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID)
    }

    /// What shows whether an open file has changed. Asking for no more lets a file system answer from
    /// what it knows: reading, for one, makes it forget the access time.
    fn version(&self, file: impl AsFd) -> Result<Attr, Errno> {
        self.statx(file, b"", StatxFlags::INO | StatxFlags::SIZE | StatxFlags::MTIME)
    }

    fn statx(&self, directory: impl AsFd, name: &[u8], wanted: StatxFlags) -> Result<Attr, Errno> {
        self.count_operation();
        let place = if name.is_empty() { AtFlags::EMPTY_PATH } else { AtFlags::SYMLINK_NOFOLLOW };
        statx(directory, name, place | AtFlags::NO_AUTOMOUNT, wanted).map(|statx| attr_of(&statx))
    }

    /// Tries until the answer is the shared file system's own. A shortage of this machine's, which
    /// nobody publishes as a fact, is waited out for a while; stale descriptors are opened anew, once.
    fn retried<T>(&self, attempt: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
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

    /// Whether a shortage is waited out once more. It is told once that it isn't.
    fn waits_on(&self) -> bool {
        let waits = self.scarce_waits.fetch_add(1, Ordering::Relaxed);
        if waits == SCARCE_WAITS_MAX {
            tracing::warn!(
                "no file can be opened for want of descriptors or memory; processes use the originals. Raise the limit of open files (ulimit -n)"
            );
        }
        waits < SCARCE_WAITS_MAX && !self.stopping.load(Ordering::Relaxed)
    }
}

pub(crate) fn attr_of(statx: &Statx) -> Attr {
    Attr {
        mode: statx.stx_mode.into(),
        nlink: statx.stx_nlink,
        uid: statx.stx_uid,
        gid: statx.stx_gid,
        ino: statx.stx_ino,
        dev_major: statx.stx_dev_major,
        dev_minor: statx.stx_dev_minor,
        rdev_major: statx.stx_rdev_major,
        rdev_minor: statx.stx_rdev_minor,
        size: statx.stx_size,
        blocks: statx.stx_blocks,
        blksize: statx.stx_blksize,
        mask: statx.stx_mask,
        attributes: statx.stx_attributes.bits(),
        attributes_mask: statx.stx_attributes_mask.bits(),
        atime: (statx.stx_atime.tv_sec, statx.stx_atime.tv_nsec),
        mtime: (statx.stx_mtime.tv_sec, statx.stx_mtime.tv_nsec),
        ctime: (statx.stx_ctime.tv_sec, statx.stx_ctime.tv_nsec),
        btime: (statx.stx_btime.tv_sec, statx.stx_btime.tv_nsec),
        mnt_id: statx.stx_mnt_id,
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
