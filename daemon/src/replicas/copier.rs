//! The thread that makes copies in one memory domain.
//!
//! A page of a file in memory is allocated in the domain of the thread that first writes it. The thread runs on the
//! domain's processors and prefers its memory. Either is enough if the other is refused, as in some containers.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, Sender};
use mio::Waker;
use rustix::fs::{SeekFrom, Timespec, Timestamps, futimens, seek};
use rustix::io::Errno;

use super::domains::Domain;
use super::policy;

/// Bytes that are copied at once.
const COPY_BYTES: usize = 256 << 10;
/// Memory that stays free in a domain; with less, the kernel would allocate elsewhere.
const LEFT_BYTES_MIN: u64 = 64 << 20;

/// A copy to make.
#[derive(Debug)]
pub(crate) struct CopyJob {
    /// The source; the thread uses its offset.
    pub(crate) from: File,
    /// The path of the new file, which must not exist.
    pub(crate) to: PathBuf,
}

/// Makes copies until the channel closes or `ends` is set. Reports each result.
pub(crate) fn serve(
    domain: &Domain,
    orders: &Receiver<CopyJob>,
    copied: &Sender<io::Result<()>>,
    ends: &Arc<AtomicBool>,
    waker: &Waker,
) {
    let (moved, preferred) = (domain.enter(), policy::prefer(domain.number));
    if moved.is_err() || preferred.is_err() {
        tracing::debug!(domain = domain.number, ?moved, ?preferred, "copies may lie in another memory domain");
    }
    for CopyJob { from, to } in orders {
        let result = make(domain, &from, &to, ends);
        drop(from);
        if copied.send(result).is_err() || waker.wake().is_err() {
            return;
        }
    }
}

fn make(domain: &Domain, from: &File, to: &Path, ends: &AtomicBool) -> io::Result<()> {
    let metadata = from.metadata()?;
    if domain.free() < metadata.blocks() * 512 + LEFT_BYTES_MIN {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    copy(from, &file, &metadata, ends).inspect_err(|_| drop(std::fs::remove_file(to)))
}

/// Copies a file with its holes, mode and times.
fn copy(from: &File, to: &File, metadata: &Metadata, ends: &AtomicBool) -> io::Result<()> {
    to.set_len(metadata.len())?;
    let (mut buffer, mut at) = (vec![0; COPY_BYTES], 0);
    while let Some((start, end)) = extent(from, at)? {
        at = start;
        while at < end {
            if ends.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let bytes = &mut buffer[..COPY_BYTES.min((end - at) as usize)];
            from.read_exact_at(bytes, at)?;
            to.write_all_at(bytes, at)?;
            at += bytes.len() as u64;
        }
    }
    let time = |tv_sec, nanoseconds: i64| Timespec { tv_sec, tv_nsec: nanoseconds };
    futimens(
        to,
        &Timestamps {
            last_access: time(metadata.atime(), metadata.atime_nsec()),
            last_modification: time(metadata.mtime(), metadata.mtime_nsec()),
        },
    )?;
    to.set_permissions(Permissions::from_mode(metadata.mode() & 0o7777))
}

/// Returns the offset and the end of the next data from `at` on.
fn extent(file: &File, at: u64) -> io::Result<Option<(u64, u64)>> {
    match seek(file, SeekFrom::Data(at)) {
        Err(Errno::NXIO) => Ok(None),
        start => {
            let start = start?;
            Ok(Some((start, seek(file, SeekFrom::Hole(start))?)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::domains::{find, tests::write_domain};
    use super::*;

    #[test]
    fn a_copy_has_the_holes_mode_and_times() {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        write_domain(directory.path(), 0, "0", (1 << 30, 1 << 30));
        let domain = find(directory.path()).remove(0);
        let (first, to) = (directory.path().join("first"), directory.path().join("copy"));
        let file = File::create(&first).unwrap();
        file.set_len(3 << 20).unwrap();
        for (at, byte) in [(0, 1), (1 << 20, 2), ((3 << 20) - 7, 3)] {
            file.write_all_at(&[byte; 7], at).unwrap();
        }
        file.set_permissions(Permissions::from_mode(0o551)).unwrap();
        file.set_times(std::fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH)).unwrap();
        let ends = AtomicBool::new(false);
        make(&domain, &File::open(&first).unwrap(), &to, &ends).unwrap();
        let (of, copy) = (std::fs::metadata(&first).unwrap(), std::fs::metadata(&to).unwrap());
        assert_eq!((copy.len(), copy.mode(), copy.mtime(), copy.blocks()), (of.len(), of.mode(), 0, of.blocks()));
        assert!(copy.ino() != of.ino() && std::fs::read(&first).unwrap() == std::fs::read(&to).unwrap());
        assert!(make(&domain, &File::open(&first).unwrap(), &to, &ends).is_err(), "the name is taken");
    }

    #[test]
    fn nothing_is_left_of_what_is_not_made() {
        let directory = tempfile::tempdir().unwrap();
        let (first, to) = (directory.path().join("first"), directory.path().join("copy"));
        std::fs::write(&first, [1; 5000]).unwrap();
        for (free, ends) in [(1 << 10, false), (1 << 30, true)] {
            write_domain(directory.path(), 0, "0", (1 << 30, free));
            let domain = find(directory.path()).remove(0);
            make(&domain, &File::open(&first).unwrap(), &to, &AtomicBool::new(ends)).unwrap_err();
            assert!(!to.exists(), "{free} {ends}");
        }
    }
}
