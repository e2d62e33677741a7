//! A file of the store that is being written.

use std::fs::{File, FileTimes, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where content is written: a new file beside the mirror, or the mirror's own file whose holes are
/// filled in place.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// Never reused, so that late news of a given-up file is recognised.
    pub(crate) number: u64,
    /// The file.
    pub(crate) file: PathBuf,
    /// The file as it stood in the mirror before, if it did.
    before: Option<Metadata>,
    given_up: AtomicBool,
}

impl Incoming {
    pub(crate) fn new(number: u64, file: PathBuf, before: Option<Metadata>) -> Incoming {
        Incoming { number, file, before, given_up: AtomicBool::new(false) }
    }

    /// True if the file already stands in the mirror.
    pub(crate) fn is_in_place(&self) -> bool {
        self.before.is_some()
    }

    /// Bytes that have been allocated since this began, where `now` describes the file.
    pub(crate) fn bytes_added(&self, now: &Metadata) -> u64 {
        let before = self.before.as_ref().map_or(0, Metadata::blocks);
        now.blocks().saturating_sub(before) * 512
    }

    /// Opens the file for writing; a new one gets its size at once, as one hole.
    pub(crate) fn create(&self, size: u64) -> io::Result<File> {
        if self.is_in_place() {
            return self.open();
        }
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.file)?;
        file.set_len(size)?;
        Ok(file)
    }

    /// Writes at an offset.
    pub(crate) fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.open()?.write_all_at(bytes, offset)
    }

    /// Gives the file up: a reader that still works on it is to stop, a new file goes, and one in
    /// the mirror looks as before. Returns the bytes that stay allocated in addition.
    pub(crate) fn give_up(&self) -> io::Result<u64> {
        self.given_up.store(true, Ordering::Relaxed);
        let Some(before) = &self.before else {
            return std::fs::remove_file(&self.file).map(|()| 0);
        };
        let file = File::open(&self.file)?;
        file.set_times(FileTimes::new().set_accessed(before.accessed()?).set_modified(before.modified()?))?;
        file.set_permissions(before.permissions())?;
        Ok(self.bytes_added(&file.metadata()?))
    }

    /// True once nobody wants it.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    fn open(&self) -> io::Result<File> {
        let open = || OpenOptions::new().write(true).open(&self.file);
        match open() {
            // A read-only original's copy is read-only too; its mode is set again at the end.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && self.is_in_place() => {
                let mode = std::fs::metadata(&self.file)?.permissions().mode();
                std::fs::set_permissions(&self.file, Permissions::from_mode(mode | 0o200))?;
                open()
            }
            result => result,
        }
    }
}
