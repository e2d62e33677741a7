//! Files of which some blocks are in the store: which ones, readable by every thread; and files whose use
//! the node wants to hear of.
//!
//! The event loop alone changes this. A copy stays the same file from its first block until it is
//! complete or evicted, and who reads a block holds it open, so that what was said to be there is.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::sync::Arc;

use headwater_abi::{Attr, Path};

use super::attributes::finish;
use super::blocks::{Closed, Partial};
use super::incoming::Incoming;
use super::store::Store;

impl Store {
    /// Where a block of `path`, a file of `size` bytes, is to be written.
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

    /// A block is complete. With `is_marked`, the first who reads it is told so.
    pub fn complete_block(&mut self, path: &Path, block: u32, is_marked: bool) -> io::Result<()> {
        let incoming = self.incoming.remove(&(path.clone(), Some(block)));
        let partial = self.blocks.partial(path).ok_or(io::ErrorKind::NotFound)?;
        self.count(path, &partial.copy().metadata()?, incoming.and_then(|incoming| incoming.take_room()));
        partial.add(block, is_marked);
        Ok(())
    }

    /// The sparse copy of `path`, a file of `size` bytes; made in the mirror if need be.
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

    /// A sparse copy of which nothing came about goes again.
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

    /// Closes the sparse copy of `path`, if there is one, so that nobody has it open; refused with
    /// [`io::ErrorKind::WouldBlock`] while a block of it is being read.
    pub(super) fn close_partial(&mut self, path: &Path) -> io::Result<Option<Closed>> {
        let Some(partial) = self.blocks.remove(path) else { return Ok(None) };
        match Arc::try_unwrap(partial) {
            Ok(partial) => Ok(Some(partial.close())),
            Err(partial) => {
                self.blocks.insert(path, partial);
                Err(io::ErrorKind::WouldBlock.into())
            }
        }
    }

    /// Undoes [`Store::close_partial`].
    pub(super) fn reopen_partial(&mut self, path: &Path, closed: Closed) -> io::Result<()> {
        let copy = self.copy_of(path);
        let mode = std::fs::symlink_metadata(&copy)?.mode();
        std::fs::set_permissions(&copy, Permissions::from_mode(mode | 0o600))?;
        let copy = File::options().read(true).write(true).open(copy)?;
        let Closed { resident, marked, is_older } = closed;
        self.blocks.insert(path, Arc::new(Partial { copy, resident, marked, is_older }));
        Ok(())
    }

    /// All of a sparse copy is there: it is a file like others; its inode number. `None` if there is
    /// no sparse copy.
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
