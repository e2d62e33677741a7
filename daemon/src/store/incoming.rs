//! Content that is being written.

use std::fs::{File, FileTimes, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use headwater_abi::wire::FileHead;

use super::blocks::Partial;

/// Files up to this size are gathered in memory and made in the mirror at once, in bytes: for them,
/// opening costs more than copying.
pub(super) const SMALL_BYTES_MAX: u64 = 32 << 10;

/// Where content is written.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// Never reused, so that late news of what was given up is recognised.
    pub(crate) number: u64,
    /// The mirror's file, unless what stands there has been given up.
    copy: Option<PathBuf>,
    /// A new file beside the mirror.
    beside: PathBuf,
    /// Decided when it is known what comes.
    place: OnceLock<Place>,
    given_up: AtomicBool,
}

#[derive(Debug)]
pub(super) enum Place {
    /// Nowhere yet: all of a small file, as far as it has come.
    Memory(Mutex<Vec<u8>>),
    /// A new file beside the mirror.
    Beside,
    /// The mirror's own file, as it stood before, whose holes are filled.
    Mirror(Box<Metadata>),
    /// A sparse copy of which one block is filled.
    Block(Arc<Partial>),
}

impl Incoming {
    /// Content in one piece, which fills the holes of `copy` if that stands in the mirror, and is
    /// written to `beside` otherwise.
    pub(crate) fn new(number: u64, copy: Option<PathBuf>, beside: PathBuf) -> Incoming {
        Incoming { number, copy, beside, place: OnceLock::new(), given_up: AtomicBool::new(false) }
    }

    /// One block.
    pub(crate) fn block(number: u64, partial: Arc<Partial>) -> Incoming {
        let incoming = Incoming::new(number, None, PathBuf::new());
        Incoming { place: Place::Block(partial).into(), ..incoming }
    }

    /// Where the content goes, once [`Incoming::create`] has decided it.
    pub(super) fn place(&self) -> Option<&Place> {
        self.place.get()
    }

    /// True if what the file had before is there as well.
    pub(crate) fn is_in_place(&self) -> bool {
        matches!(self.place(), Some(Place::Mirror(_) | Place::Block(_)))
    }

    /// The file by its path; what is in memory and what goes into a sparse copy has none.
    pub(super) fn file(&self) -> Option<&PathBuf> {
        match self.place()? {
            Place::Beside => Some(&self.beside),
            Place::Mirror(_) => self.copy.as_ref(),
            Place::Memory(_) | Place::Block(_) => None,
        }
    }

    /// Bytes that have been allocated since this began, where `now` describes the file.
    pub(super) fn bytes_added(&self, now: &Metadata) -> u64 {
        let before = match self.place() {
            Some(Place::Mirror(before)) => before.blocks(),
            _ => 0,
        };
        now.blocks().saturating_sub(before) * 512
    }

    /// Makes room for what `head` describes; a new file gets its size at once, as one hole.
    pub(crate) fn create(&self, head: &FileHead) -> io::Result<()> {
        if self.place().is_some() {
            return Ok(());
        }
        let is_small = head.whole && head.attr.size <= SMALL_BYTES_MAX;
        let place = if is_small { Place::Memory(Mutex::default()) } else { self.choose()? };
        if matches!(place, Place::Beside) {
            let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.beside)?;
            file.set_len(head.attr.size).inspect_err(|_| drop(std::fs::remove_file(&self.beside)))?;
        }
        // Who calls it twice does so from one thread.
        let _ = self.place.set(place);
        Ok(())
    }

    /// Writes at an offset.
    pub(crate) fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.place() {
            Some(Place::Memory(memory)) => put(&mut lock(memory), bytes, offset as usize),
            Some(Place::Block(partial)) => partial.copy().write_all_at(bytes, offset),
            _ => self.open()?.write_all_at(bytes, offset),
        }
    }

    /// Fills `bytes` with what has arrived.
    pub(crate) fn read(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        match self.place() {
            Some(Place::Memory(memory)) => {
                let memory = lock(memory);
                let arrived = memory.get(offset as usize..).and_then(|rest| rest.get(..bytes.len()));
                bytes.copy_from_slice(arrived.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
            Some(Place::Block(partial)) => partial.copy().read_exact_at(bytes, offset),
            _ => File::open(self.file().ok_or(io::ErrorKind::NotFound)?)?.read_exact_at(bytes, offset),
        }
    }

    /// Opens the file for writing.
    pub(crate) fn open(&self) -> io::Result<File> {
        if let Some(Place::Block(partial)) = self.place() {
            return partial.copy().try_clone();
        }
        let file = self.file().ok_or(io::ErrorKind::NotFound)?;
        let open = || OpenOptions::new().write(true).open(file);
        match open() {
            // A read-only original's copy is read-only too; its mode is set again at the end.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && self.is_in_place() => {
                let mode = std::fs::metadata(file)?.permissions().mode();
                std::fs::set_permissions(file, Permissions::from_mode(mode | 0o200))?;
                open()
            }
            result => result,
        }
    }

    /// True if the content is gathered in memory.
    pub(crate) fn is_small(&self) -> bool {
        matches!(self.place(), Some(Place::Memory(_)))
    }

    /// What has been gathered in memory.
    pub(super) fn take_memory(&self) -> Option<Vec<u8>> {
        match self.place()? {
            Place::Memory(memory) => Some(std::mem::take(&mut *lock(memory))),
            _ => None,
        }
    }

    /// Gives the content up: a reader that still works on it is to stop, a new file goes, and one in
    /// the mirror looks as before. Returns the bytes that stay allocated in addition.
    pub(crate) fn give_up(&self) -> io::Result<u64> {
        self.given_up.store(true, Ordering::Relaxed);
        match self.place() {
            Some(Place::Beside) => std::fs::remove_file(&self.beside).map(|()| 0),
            Some(Place::Mirror(before)) => {
                let file = File::open(self.file().ok_or(io::ErrorKind::NotFound)?)?;
                file.set_times(FileTimes::new().set_accessed(before.accessed()?).set_modified(before.modified()?))?;
                file.set_permissions(before.permissions())?;
                Ok(self.bytes_added(&file.metadata()?))
            }
            Some(Place::Memory(_) | Place::Block(_)) | None => Ok(0),
        }
    }

    /// True once nobody wants it.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    fn choose(&self) -> io::Result<Place> {
        let before = match self.copy.as_ref().map(std::fs::symlink_metadata) {
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Some(Ok(before)) if before.is_file() => Some(before),
            _ => None,
        };
        Ok(before.map_or(Place::Beside, |before| Place::Mirror(Box::new(before))))
    }
}

fn put(memory: &mut Vec<u8>, bytes: &[u8], offset: usize) -> io::Result<()> {
    let end = offset + bytes.len();
    if end as u64 > SMALL_BYTES_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if memory.len() < end {
        memory.resize(end, 0);
    }
    memory[offset..end].copy_from_slice(bytes);
    Ok(())
}

fn lock(memory: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}
