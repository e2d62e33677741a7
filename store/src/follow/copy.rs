//! One copy that follows its source file.

use std::ffi::OsStr;
use std::fs::{File, FileTimes, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use headwater_abi::{Attr, Path};
use rustix::fs::OFlags;

use crate::mirror::{Budget, Reservation, copied_mode, is_in_use, pages};

/// Bytes that are compared at once.
const PIECE_BYTES: usize = 256 << 10;
/// Larger files are not followed, in bytes, because each change means reading the whole file.
pub(super) const FOLLOWED_BYTES_MAX: u64 = 64 << 20;
/// Within this time after a change, a file may change again with the same times.
const TIMES_GRAIN: Duration = Duration::from_secs(2);
/// The pause between two updates, in durations of the last one.
const REST_SHARE: u32 = 4;

/// A copy to follow: its path, its source file's path, and the source file's attributes at the time of the copy.
#[derive(Debug)]
pub struct Followed {
    path: Path,
    copy: PathBuf,
    attr: Attr,
    source: Option<File>,
}

impl Followed {
    /// If a process has the copy open, opens the source file at once, because the job may be about to rename or remove
    /// it.
    pub fn new(path: Path, copy: PathBuf, attr: Attr) -> Followed {
        let source = is_in_use(&copy).is_ok_and(|is| is).then(|| open_source(&path, &attr).ok()).flatten();
        Followed { path, copy, attr, source }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Size, mtime and ctime, which show that a file has changed.
type Stamp = (u64, (i64, i64), (i64, i64));

/// A copy that follows its source file's inode. A file that replaces the source file is another one; processes with the
/// old one open don't see it.
#[derive(Debug)]
pub(super) struct Copy {
    of: Followed,
    seen: Stamp,
    rest_until: Instant,
    since: Instant,
    /// The growth of the copy, which remains when it is followed no more.
    grown: Reservation,
}

impl Copy {
    pub(super) fn new(of: Followed, budget: &Budget) -> Copy {
        let seconds = |(seconds, nanoseconds): (i64, u32)| (seconds, i64::from(nanoseconds));
        let seen = (of.attr.size, seconds(of.attr.mtime), seconds(of.attr.ctime));
        let now = Instant::now();
        Copy { of, seen, rest_until: now, since: now, grown: budget.nothing() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.of.path
    }

    /// Returns how long it has been followed.
    pub(super) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Returns true if a process has the copy open or mapped.
    pub(super) fn is_in_use(&self) -> bool {
        is_in_use(&self.of.copy).unwrap_or(false)
    }

    /// Returns the source file, opened on first use.
    ///
    /// # Errors
    /// Another file is at its path, or it can't be opened.
    pub(super) fn source(&mut self) -> io::Result<&File> {
        if self.of.source.is_none() {
            self.of.source = Some(open_source(&self.of.path, &self.of.attr)?);
        }
        self.of.source.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Updates the copy from the source file; `is_reported` if the kernel has reported a change. Returns true if the
    /// update is due but must wait, because the last one was a short time ago.
    ///
    /// # Errors
    /// The copy can't follow any longer: its source file is gone or too large, or there is no room.
    pub(super) fn update(&mut self, is_reported: bool) -> io::Result<bool> {
        if Instant::now() < self.rest_until {
            return Ok(is_reported);
        }
        let started = Instant::now();
        let metadata = self.source()?.metadata()?;
        let stamp = stamp(&metadata);
        if stamp == self.seen && !is_reported && !is_fresh(&metadata) {
            return Ok(false);
        }
        if metadata.len() > FOLLOWED_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.write_through(&metadata)?;
        self.seen = stamp;
        self.rest_until = Instant::now() + started.elapsed() * REST_SHARE;
        Ok(false)
    }

    /// Writes the differences into the copy, and sets the source file's size, time and permissions.
    fn write_through(&mut self, metadata: &Metadata) -> io::Result<()> {
        let source = self.of.source.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let before = std::fs::metadata(&self.of.copy)?;
        if before.mode() & 0o200 == 0 {
            std::fs::set_permissions(&self.of.copy, Permissions::from_mode(before.mode() | 0o600))?;
        }
        let copy = OpenOptions::new().read(true).write(true).open(&self.of.copy)?;
        // All parts that are not allocated yet may be from now on, also holes.
        self.grown.grow_to(pages(metadata.len().saturating_sub(before.blocks() * 512)))?;
        if before.len() > metadata.len() {
            copy.set_len(metadata.len())?;
        }
        let (mut theirs, mut ours) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
        let mut at = 0;
        // A change in between is reported again.
        while at < metadata.len() {
            let wanted = PIECE_BYTES.min((metadata.len() - at) as usize);
            let got = read_up_to(source, &mut theirs[..wanted], at)?;
            let had = read_up_to(&copy, &mut ours[..got], at)?;
            if theirs[..got] != ours[..had] {
                copy.write_all_at(&theirs[..got], at)?;
            }
            at += got as u64;
            if got < wanted {
                break;
            }
        }
        if copy.metadata()?.len() != at {
            copy.set_len(at)?;
        }
        copy.set_permissions(Permissions::from_mode(copied_mode(metadata.mode())))?;
        copy.set_times(FileTimes::new().set_modified(metadata.modified()?))
    }
}

fn open_source(path: &Path, attr: &Attr) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let path = std::path::Path::new(OsStr::from_bytes(path.as_bytes()));
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.ino() != attr.ino || is_born_later(&metadata, attr) {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(file)
}

/// Returns true if it reuses the inode number of a removed file, as far as the birth time shows.
fn is_born_later(metadata: &Metadata, attr: &Attr) -> bool {
    let (seconds, nanoseconds) = attr.btime;
    let Ok(since_epoch) = metadata.created().map(|born| born.duration_since(SystemTime::UNIX_EPOCH)) else {
        return false;
    };
    let known = u64::try_from(seconds).map(|seconds| Duration::new(seconds, nanoseconds));
    attr.btime != (0, 0) && since_epoch.ok() != known.ok()
}

fn stamp(metadata: &Metadata) -> Stamp {
    (metadata.len(), (metadata.mtime(), metadata.mtime_nsec()), (metadata.ctime(), metadata.ctime_nsec()))
}

/// Returns true if it may have changed, or may change again, with the same times.
fn is_fresh(metadata: &Metadata) -> bool {
    let age = metadata.modified().ok().and_then(|modified| SystemTime::now().duration_since(modified).ok());
    age.is_none_or(|age| age < TIMES_GRAIN)
}

/// Fills `bytes` up to the end of the file. Returns the number of bytes read.
fn read_up_to(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    let mut got = 0;
    while got < bytes.len() {
        match file.read_at(&mut bytes[got..], at + got as u64) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}
