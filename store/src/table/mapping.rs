//! The shared table's memory: the daemon's one mapping of a file.

use std::fs::File;
use std::io;
use std::path::Path;
use std::ptr::{self, NonNull};

use headwater_abi::table::AtomicU64;
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, ftruncate, open};
use rustix::mm::{MapFlags, ProtFlags, mmap};

/// Memory is added to the table's file in steps of this many bytes.
const STEP_BYTES: u64 = 1 << 20;
/// Memory beyond the present need. If it can't be allocated, the store frees some before the table needs it.
const AHEAD_BYTES: u64 = 256 << 10;

/// The flags for opening a table's file.
const OPENING: OFlags = OFlags::RDWR.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// Creates and maps a table file of `total_bytes`, mapped until the process ends. Returns its words and the handle that
/// allocates memory. No byte may be touched before [`Backing::reserve`] has covered it: the file has holes, and on a
/// full file system an access is a SIGBUS.
pub fn create(path: &Path, total_bytes: u64) -> io::Result<(&'static [AtomicU64], Backing)> {
    let file = File::from(open(path, OPENING | OFlags::CREATE | OFlags::EXCL, Mode::from(0o600))?);
    ftruncate(&file, total_bytes)?;
    map(file, total_bytes)
}

/// Maps the table file of a predecessor; fails with [`io::ErrorKind::InvalidData`] if it has another size. Here too,
/// [`Backing::reserve`] must precede every access.
pub fn attach(path: &Path, total_bytes: u64) -> io::Result<(&'static [AtomicU64], Backing)> {
    let file = File::from(open(path, OPENING, Mode::empty())?);
    if file.metadata()?.len() != total_bytes {
        return Err(io::ErrorKind::InvalidData.into());
    }
    map(file, total_bytes)
}

fn map(file: File, total_bytes: u64) -> io::Result<(&'static [AtomicU64], Backing)> {
    let bytes = usize::try_from(total_bytes).map_err(io::Error::other)?;
    // SAFETY: a new shared mapping at an address that the kernel chooses touches no other memory.
    let address =
        unsafe { mmap(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)? };
    let words = NonNull::new(address.cast::<AtomicU64>()).ok_or(io::ErrorKind::OutOfMemory)?;
    // SAFETY: the mapping is page-aligned, `bytes` long, readable, writable and never unmapped; any
    // bit pattern is an atomic word; all access, here and in other processes, is atomic by words; the
    // file is never truncated, and lies in a directory that is this user's alone.
    let words = unsafe { std::slice::from_raw_parts(words.as_ptr(), bytes / size_of::<AtomicU64>()) };
    Ok((words, Backing { file, total_bytes, reserved: 0, is_short: false }))
}

/// The memory behind a table.
#[derive(Debug)]
pub struct Backing {
    file: File,
    total_bytes: u64,
    reserved: u64,
    /// Memory beyond the need could not be allocated.
    is_short: bool,
}

impl Backing {
    /// Allocates memory below `end`, and some beyond if possible. Returns false if `end` is not covered.
    pub fn reserve(&mut self, end: u64) -> bool {
        if end > self.total_bytes {
            return false;
        }
        let ahead = end + AHEAD_BYTES;
        if ahead > self.reserved && !self.is_short {
            self.is_short = !self.extend(ahead);
        }
        end <= self.reserved || self.extend(end)
    }

    /// Tries again to allocate memory beyond the need, if it failed the last time.
    pub fn replenish(&mut self) {
        self.is_short = self.is_short && !self.extend(self.reserved + AHEAD_BYTES);
    }

    /// Returns true if memory beyond the need could not be allocated.
    pub fn is_short(&self) -> bool {
        self.is_short
    }

    fn extend(&mut self, end: u64) -> bool {
        let target = end.next_multiple_of(STEP_BYTES).min(self.total_bytes);
        let more = target.saturating_sub(self.reserved);
        if more > 0 && fallocate(&self.file, FallocateFlags::empty(), self.reserved, more).is_err() {
            return false;
        }
        self.reserved += more;
        true
    }

    /// Frees all memory; its content then reads as zero.
    pub fn release(&mut self) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if let Err(error) = fallocate(&self.file, flags, 0, self.total_bytes) {
            tracing::debug!(%error, "an older generation's table keeps its memory until the session ends");
        }
        self.reserved = 0;
    }

    /// Returns the allocated bytes.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_had_ahead_of_need_up_to_the_tables_end() {
        let dir = tempfile::tempdir().unwrap();
        let total = 3 * STEP_BYTES + 4096;
        let (_, mut backing) = create(&dir.path().join("table"), total).unwrap();
        assert!(backing.reserve(100));
        assert_eq!(backing.reserved(), STEP_BYTES);
        assert!(backing.reserve(STEP_BYTES - AHEAD_BYTES) && backing.reserve(STEP_BYTES));
        assert_eq!(backing.reserved(), 2 * STEP_BYTES);
        assert!(backing.reserve(total) && !backing.reserve(total + 1));
        assert_eq!((backing.reserved(), backing.is_short()), (total, false));
    }
}
