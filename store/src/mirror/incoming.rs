//! Content that is being written.

use std::fs::{File, FileTimes, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use headwater_abi::wire::FileHead;
use rustix::fs::{FallocateFlags, fallocate};

use super::blocks::Partial;
use super::budget::{Budget, Reservation, page_bytes, pages, pages_of};

/// Smaller files are collected in memory and created in the mirror at once, in bytes: for them, opening costs more than
/// copying.
pub(super) const SMALL_BYTES_MAX: u64 = 32 << 10;

/// Content that is being received or read.
#[derive(Debug)]
pub struct Incoming {
    /// Never reused, so that late events of discarded content are recognised.
    pub number: u64,
    /// The mirror's file, unless it has been evicted.
    copy: Option<PathBuf>,
    /// A new file beside the mirror.
    beside: PathBuf,
    /// Chosen once the head is known.
    slot: OnceLock<StoreSlot>,
    /// The store's budget.
    budget: Budget,
    /// The reservation for the new bytes.
    room: Mutex<Option<Reservation>>,
    given_up: AtomicBool,
}

#[derive(Debug)]
pub(super) enum StoreSlot {
    /// In memory: a small file, as far as it has arrived.
    Memory(Mutex<Vec<u8>>),
    /// A new file beside the mirror. If the source file has holes, pages of zeros are left out.
    Beside { with_holes: bool },
    /// The mirror's own file with these attributes, whose holes are filled.
    Mirror(Box<Metadata>),
    /// One block of a sparse copy.
    Block(Arc<Partial>),
}

impl Incoming {
    /// Creates a target for a whole file. It fills the holes of `copy` if that is in the mirror; otherwise it is the
    /// new file `beside`. Both are within `budget`.
    pub fn new(number: u64, copy: Option<PathBuf>, beside: PathBuf, budget: Budget) -> Incoming {
        let (slot, given_up) = (OnceLock::new(), AtomicBool::new(false));
        Incoming { number, copy, beside, slot, budget, room: Mutex::default(), given_up }
    }

    /// Creates a target for one block.
    pub fn block(number: u64, partial: Arc<Partial>, budget: Budget) -> Incoming {
        let incoming = Incoming::new(number, None, PathBuf::new(), budget);
        Incoming { slot: StoreSlot::Block(partial).into(), ..incoming }
    }

    /// Returns where the content is written, once [`Incoming::create`] has chosen it.
    pub(super) fn slot(&self) -> Option<&StoreSlot> {
        self.slot.get()
    }

    /// Returns true if the file's earlier content is there as well.
    pub fn is_in_place(&self) -> bool {
        matches!(self.slot(), Some(StoreSlot::Mirror(_) | StoreSlot::Block(_)))
    }

    /// Returns the path of the file; memory and sparse copies have none.
    pub(super) fn file(&self) -> Option<&PathBuf> {
        match self.slot()? {
            StoreSlot::Beside { .. } => Some(&self.beside),
            StoreSlot::Mirror(_) => self.copy.as_ref(),
            StoreSlot::Memory(_) | StoreSlot::Block(_) => None,
        }
    }

    /// Returns the reservation, which the caller counts from now on.
    pub(super) fn take_room(&self) -> Option<Reservation> {
        lock(&self.room).take()
    }

    /// Returns the attributes of the file that stays with the written bytes if this is discarded; `None` if none stays.
    pub(super) fn what_stays(&self) -> io::Result<Option<Metadata>> {
        match self.slot() {
            Some(StoreSlot::Mirror(_)) => self.copy.as_ref().map(std::fs::symlink_metadata).transpose(),
            Some(StoreSlot::Block(partial)) => Ok(Some(partial.copy().metadata()?).filter(|copy| copy.nlink() > 0)),
            _ => Ok(None),
        }
    }

    /// Chooses the target for the content of `head` and reserves its bytes, or fails with
    /// [`io::ErrorKind::StorageFull`]. A new file gets its size at once, as one hole.
    pub fn create(&self, head: &FileHead) -> io::Result<()> {
        let is_small = head.whole && head.attr.size <= SMALL_BYTES_MAX;
        match self.slot() {
            Some(StoreSlot::Block(_)) => return self.reserve(pages_of(head)),
            Some(_) => return Ok(()),
            None => {}
        }
        let before = self.choose()?;
        self.reserve(match &before {
            StoreSlot::Mirror(before) if head.whole => pages(head.attr.size).saturating_sub(before.blocks() * 512),
            _ => pages_of(head),
        })?;
        let mut slot = if is_small { StoreSlot::Memory(Mutex::default()) } else { before };
        if let StoreSlot::Beside { with_holes } = &mut slot {
            let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.beside)?;
            file.set_len(head.attr.size).inspect_err(|_| drop(std::fs::remove_file(&self.beside)))?;
            // Holes need room too, because processes may map them.
            *with_holes = head.whole
                && head.attr.blocks < head.attr.size / 512
                && fallocate(&file, FallocateFlags::KEEP_SIZE, 0, head.attr.size).is_ok();
        }
        // All calls come from one thread, so this can't fail.
        let _ = self.slot.set(slot);
        Ok(())
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        let mut room = lock(&self.room);
        match &mut *room {
            Some(room) => room.grow_to(bytes),
            None => {
                *room = Some(self.budget.reserve(bytes)?);
                Ok(())
            }
        }
    }

    /// Writes at an offset.
    pub fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.slot() {
            Some(StoreSlot::Memory(memory)) => put(&mut lock(memory), bytes, offset as usize),
            Some(StoreSlot::Block(partial)) => partial.copy().write_all_at(bytes, offset),
            _ => self.write_to(&self.open()?, bytes, offset),
        }
    }

    /// As [`Incoming::write`], for a file that is open.
    pub fn write_to(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        if !matches!(self.slot(), Some(StoreSlot::Beside { with_holes: true })) {
            return file.write_all_at(bytes, offset);
        }
        // Holes begin and end with pages.
        let page = page_bytes() as usize;
        let (mut at, mut written) = (0, 0);
        while at < bytes.len() {
            let end = (at + page - (offset + at as u64) as usize % page).min(bytes.len());
            if bytes[at..end].iter().all(|byte| *byte == 0) {
                file.write_all_at(&bytes[written..at], offset + written as u64)?;
                written = end;
            }
            at = end;
        }
        file.write_all_at(&bytes[written..], offset + written as u64)
    }

    /// Fills `bytes` from the content that has arrived.
    pub fn read(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        match self.slot() {
            Some(StoreSlot::Memory(memory)) => {
                let memory = lock(memory);
                let arrived = memory.get(offset as usize..).and_then(|rest| rest.get(..bytes.len()));
                bytes.copy_from_slice(arrived.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
            Some(StoreSlot::Block(partial)) => partial.copy().read_exact_at(bytes, offset),
            _ => File::open(self.file().ok_or(io::ErrorKind::NotFound)?)?.read_exact_at(bytes, offset),
        }
    }

    /// Opens the file for writing.
    pub fn open(&self) -> io::Result<File> {
        if let Some(StoreSlot::Block(partial)) = self.slot() {
            return partial.copy().try_clone();
        }
        let file = self.file().ok_or(io::ErrorKind::NotFound)?;
        let open = || OpenOptions::new().write(true).open(file);
        match open() {
            // The copy of a read-only source file is read-only; its mode is restored at the end.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && self.is_in_place() => {
                let mode = std::fs::metadata(file)?.permissions().mode();
                std::fs::set_permissions(file, Permissions::from_mode(mode | 0o200))?;
                open()
            }
            result => result,
        }
    }

    /// Returns true if the content is collected in memory.
    pub fn is_small(&self) -> bool {
        matches!(self.slot(), Some(StoreSlot::Memory(_)))
    }

    /// Returns the content that was collected in memory.
    pub(super) fn take_memory(&self) -> Option<Vec<u8>> {
        match self.slot()? {
            StoreSlot::Memory(memory) => Some(std::mem::take(&mut *lock(memory))),
            _ => None,
        }
    }

    /// Discards the content: its reader stops, a new file is removed, and a file of the mirror gets its attributes
    /// back.
    pub fn give_up(&self) -> io::Result<()> {
        self.given_up.store(true, Ordering::Relaxed);
        match self.slot() {
            Some(StoreSlot::Beside { .. }) => std::fs::remove_file(&self.beside),
            Some(StoreSlot::Mirror(before)) => {
                let file = File::open(self.file().ok_or(io::ErrorKind::NotFound)?)?;
                file.set_times(FileTimes::new().set_accessed(before.accessed()?).set_modified(before.modified()?))?;
                file.set_permissions(before.permissions())
            }
            Some(StoreSlot::Memory(_) | StoreSlot::Block(_)) | None => Ok(()),
        }
    }

    /// Returns true if it has been discarded.
    pub fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    fn choose(&self) -> io::Result<StoreSlot> {
        let before = match self.copy.as_ref().map(std::fs::symlink_metadata) {
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Some(Ok(before)) if before.is_file() => Some(before),
            _ => None,
        };
        Ok(before.map_or(StoreSlot::Beside { with_holes: false }, |before| StoreSlot::Mirror(Box::new(before))))
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
