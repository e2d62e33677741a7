//! Makes copies for memory domains, as far as there is room.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use headwater_abi::Path;
use headwater_abi::wire::FileHead;

use super::Daemon;
use crate::config::content_bytes_max;
use crate::replicas::UnderWay;
use crate::replicas::copier::CopyJob;

/// The part of the room beside content that copies may use; the rest is for further content.
const ROOM_SHARE: u64 = 2;
/// Files that are tried at once when copies are removed.
const TRIES_MAX: usize = 64;

impl Daemon {
    /// Schedules copies of a file that is complete and published.
    pub(crate) fn replicate(&mut self, path: &Path, head: &FileHead) {
        self.housekeeping.replicating.note(path, head);
        if self.content.store.replica_bytes() > 0 {
            self.fit_replicas();
        }
    }

    /// Publishes finished copies, and orders those of the next file.
    pub(crate) fn take_replicas(&mut self) {
        if let Some(copies) = self.housekeeping.replicating.take() {
            self.add_replicas(copies);
        }
        while self.housekeeping.replicating.under_way.is_none() {
            let Some((path, is_whole)) = self.housekeeping.replicating.pending.pop_front() else { return };
            if let Err(error) = self.order_replicas(&path, is_whole) {
                tracing::debug!(%path, %error, "not copied to memory domains");
            }
        }
    }

    /// Removes copies that no longer fit beside content.
    pub(crate) fn fit_replicas(&mut self) {
        let excess = self.content.store.replica_bytes().saturating_sub(self.replica_room());
        if excess > 0 {
            let given_up = self.content.store.give_up_replicas(excess, TRIES_MAX);
            tracing::debug!(excess, given_up, "copies for memory domains are given up");
        }
    }

    /// Returns the bytes of the store's limit that content leaves.
    fn replica_room(&self) -> u64 {
        let (max, _) = self.housekeeping.pressure.store_bytes_max();
        let stands = self.content.store.bytes() - self.content.store.replica_bytes();
        content_bytes_max(self.serves_audit, max).saturating_sub(stands.max(self.driver.node.stats().store_bytes))
    }

    fn order_replicas(&mut self, path: &Path, is_whole: bool) -> io::Result<()> {
        let (Some(ino), Some((first, files))) =
            (self.content.table.copy_of(path), self.content.store.begin_replicas(path))
        else {
            return Ok(());
        };
        let metadata = std::fs::symlink_metadata(&first)?;
        let bytes = metadata.blocks() * 512 * files.len() as u64;
        if metadata.ino() != ino || self.content.store.replica_bytes() + bytes > self.replica_room() / ROOM_SHARE {
            return Ok(());
        }
        let room = self.content.store.budget().reserve(bytes)?;
        // Each thread needs an offset of its own.
        let opened: Vec<File> = files.iter().map(|_| File::open(&first)).collect::<io::Result<_>>()?;
        let mut awaited = 0;
        for ((copier, from), to) in self.housekeeping.replicating.copiers.iter().zip(opened).zip(&files) {
            awaited += usize::from(copier.orders.send(CopyJob { from, to: to.clone() }).is_ok());
        }
        let has_failed = awaited < files.len();
        let path = path.clone();
        self.housekeeping.replicating.under_way =
            Some(UnderWay { path, is_whole, ino, files, room, awaited, has_failed });
        Ok(())
    }

    fn add_replicas(&mut self, copies: UnderWay) {
        let UnderWay { path, is_whole, ino, files, room, has_failed, .. } = copies;
        let is_wanted = !has_failed && self.content.table.copy_of(&path) == Some(ino);
        if is_wanted {
            match self.content.store.add_replicas(&path, &files, room) {
                Ok(()) => return self.content.table.replicated(&path, is_whole),
                Err(error) => tracing::debug!(%path, %error, "not put into the memory domains' mirrors"),
            }
        }
        files.iter().for_each(|file| drop(std::fs::remove_file(file)));
    }
}
