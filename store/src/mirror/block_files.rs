//! Files with some blocks in the store, and marked files whose reads are reported to the node.
//!
//! The event loop alone changes this; every thread may read it. A copy is the same file from its first block until it
//! is complete or evicted. A thread that reads a block holds the copy open, so the block stays.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::sync::Arc;

use headwater_abi::{Attr, Path};

use super::attributes::finish;
use super::blocks::{Partial, PartialState};
use super::incoming::Incoming;
use super::store::Store;

impl Store {
    /// Returns where to write a block of `path`, a file of `size` bytes.
    pub fn incoming_block(&mut self, path: &Path, block: u32, size: u64) -> io::Result<Arc<Incoming>> {
        let piece = (path.clone(), Some(block));
        if let Some(incoming) = self.incoming.get(&piece) {
            return Ok(Arc::clone(incoming));
        }
        let partial = self.partial_of(path, size)?;
        let (number, _) = self.beside();
        let incoming = Arc::new(Incoming::block(number, partial, self.budget.clone()));
        self.incoming.insert(piece, Arc::clone(&incoming));
        Ok(incoming)
    }

    /// Publishes a complete block. With `is_marked`, its first read is reported.
    pub fn complete_block(&mut self, path: &Path, block: u32, is_marked: bool) -> io::Result<()> {
        let incoming = self.incoming.remove(&(path.clone(), Some(block)));
        let partial = self.blocks.partial(path).ok_or(io::ErrorKind::NotFound)?;
        self.count(path, &partial.copy().metadata()?, incoming.and_then(|incoming| incoming.take_room()));
        partial.add(block, is_marked);
        Ok(())
    }

    /// Returns the sparse copy of `path`, a file of `size` bytes, creating it if necessary.
    pub(super) fn partial_of(&mut self, path: &Path, size: u64) -> io::Result<Arc<Partial>> {
        if let Some(partial) = self.blocks.partial(path) {
            return Ok(partial);
        }
        let copy = self.copy_of(path);
        let is_hidden = self.hidden.contains(path);
        let before = std::fs::symlink_metadata(&copy).ok().filter(|metadata| metadata.is_file() && !is_hidden);
        let mut options = File::options();
        let partial = match before {
            Some(before) => {
                std::fs::set_permissions(&copy, Permissions::from_mode(before.mode() | 0o600))?;
                Partial::new(options.read(true).write(true).open(&copy)?, size, true)
            }
            None => {
                let (_, beside) = self.beside();
                let file = options.read(true).write(true).create_new(true).mode(0o600).open(&beside)?;
                let moved_in = file.set_len(size).and_then(|()| self.put(path, &beside));
                moved_in.inspect_err(|_| drop(std::fs::remove_file(&beside)))?;
                Partial::new(file, size, false)
            }
        };
        let partial = Arc::new(partial);
        self.blocks.insert(path, Arc::clone(&partial));
        Ok(partial)
    }

    /// Removes a sparse copy without blocks.
    pub(super) fn drop_empty(&mut self, path: &Path) {
        let Some(partial) = self.blocks.partial(path).filter(|partial| partial.is_empty()) else { return };
        if self.incoming.keys().any(|(of, block)| of == path && block.is_some()) {
            return;
        }
        self.blocks.remove(path);
        let is_new = partial.is_new();
        drop(partial);
        if is_new {
            let _ = self.remove_name(&self.copy_of(path));
        }
    }

    /// Closes the sparse copy of `path`, if there is one. Fails with [`io::ErrorKind::WouldBlock`] while a block of it
    /// is being read.
    pub(super) fn close_partial(&mut self, path: &Path) -> io::Result<Option<PartialState>> {
        let Some(partial) = self.blocks.remove(path) else { return Ok(None) };
        match Arc::try_unwrap(partial) {
            Ok(partial) => Ok(Some(partial.state)),
            Err(partial) => {
                self.blocks.insert(path, partial);
                Err(io::ErrorKind::WouldBlock.into())
            }
        }
    }

    /// Reopens it; the inverse of [`Store::close_partial`].
    pub(super) fn reopen_partial(&mut self, path: &Path, state: PartialState) -> io::Result<()> {
        let copy = self.copy_of(path);
        let mode = std::fs::symlink_metadata(&copy)?.mode();
        std::fs::set_permissions(&copy, Permissions::from_mode(mode | 0o600))?;
        let copy = File::options().read(true).write(true).open(copy)?;
        self.blocks.insert(path, Arc::new(Partial { copy, state }));
        Ok(())
    }

    /// Turns a sparse copy with all blocks into an ordinary file and returns its inode number; `None` if there is no
    /// sparse copy.
    pub(super) fn complete_partial(&mut self, path: &Path, attr: &Attr) -> Option<io::Result<u64>> {
        let partial = self.blocks.remove(path)?;
        let result = finish(&partial.copy, attr).and_then(|()| partial.copy.metadata());
        drop(partial);
        match &result {
            Ok(metadata) => self.count(path, metadata, None),
            Err(_) => drop(self.remove_name(&self.copy_of(path))),
        }
        Some(result.map(|metadata| metadata.ino()))
    }
}
