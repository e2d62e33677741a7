//! Removes copies from the mirror that may be in use.
//!
//! A process keeps the files that it has open or mapped, so their memory stays allocated. Meanwhile the copy has a name
//! beside the mirror, which only the store and a successor use.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path as FsPath;

use headwater_proto::Time;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::path::Arg;

use super::lease;
use super::parked::CHECK_MS;
use super::store::Store;

/// The least time between checks while room is needed, in milliseconds.
const CHECK_MS_MIN: Time = 50;

impl Store {
    /// Removes a name of a copy or link. A copy that is in use counts until it is closed.
    pub(super) fn remove_name(&mut self, name: &FsPath) -> io::Result<()> {
        let metadata = std::fs::symlink_metadata(name)?;
        if !metadata.is_file() || metadata.nlink() > 1 {
            std::fs::remove_file(name)?;
            if metadata.is_symlink() {
                self.taken.remove(&metadata.ino());
            }
            return Ok(());
        }
        self.next_number += 1;
        let parked = self.parked_dir.join(self.next_number.to_string());
        std::fs::rename(name, &parked)?;
        if !self.free(&parked) {
            self.parked.files.push(parked);
        }
        Ok(())
    }

    /// Replaces a copy by `file`, atomically; the copy is removed as by [`Store::remove_name`].
    pub(super) fn exchange(&mut self, file: &FsPath, directory: impl AsFd, name: impl Arg + Copy) -> io::Result<()> {
        match renameat_with(CWD, file, &directory, name, RenameFlags::EXCHANGE) {
            Ok(()) => self.remove_name(file),
            // In this case the copy's memory is not counted while it is in use.
            Err(_) => Ok(rustix::fs::renameat(CWD, file, &directory, name)?),
        }
    }

    /// Frees unused parked copies, if the check is due.
    pub(super) fn check_parked(&mut self, now: Time, is_room_wanted: bool) {
        let interval = if is_room_wanted { CHECK_MS_MIN } else { CHECK_MS };
        if now >= self.parked.checked_at + interval {
            self.parked.checked_at = now;
            let files = std::mem::take(&mut self.parked.files);
            self.parked.files = files.into_iter().filter(|file| !self.free(file)).collect();
        }
    }

    /// Finds the parked copies of a predecessor.
    pub(super) fn find_parked(&mut self) -> io::Result<()> {
        for entry in std::fs::read_dir(&self.parked_dir)? {
            let entry = entry?;
            self.count_as(&entry.metadata()?);
            let number = entry.file_name().to_str().and_then(|name| name.parse().ok()).unwrap_or(0);
            self.next_number = self.next_number.max(number);
            self.parked.files.push(entry.path());
        }
        Ok(())
    }

    /// Removes a parked copy unless it is in use. Returns true if it is gone.
    pub(super) fn free(&mut self, parked: &FsPath) -> bool {
        let freed = File::open(parked).and_then(|file| {
            match lease::take(&file) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                // Without leases the use can't be detected.
                _ => std::fs::remove_file(parked)?,
            }
            let ino = file.metadata()?.ino();
            // The last descriptor frees its memory.
            drop(file);
            self.taken.remove(&ino);
            Ok(true)
        });
        freed.unwrap_or_else(|error| {
            tracing::warn!(file = %parked.display(), %error, "an unused copy can't be removed from the store; check the permissions under --store");
            error.kind() == io::ErrorKind::NotFound
        })
    }
}
