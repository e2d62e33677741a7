//! The jobs of the pool and their events.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use headwater_abi::Path;
use headwater_abi::wire::{Aspect, Detail, Digest, Fact, FileHead};
use headwater_store::Incoming;
use rustix::io::Errno;

use crate::cached::FindJob;

/// A read job.
#[derive(Debug)]
pub enum ReadJob {
    /// Examine a path without following a link.
    Entry(Path),
    /// List a directory.
    Listing(Path),
    /// Examine these names of a directory.
    Details(Path, Vec<Box<[u8]>>),
    /// Read a file's content.
    File(FileJob),
    /// Look for content in the node's cache.
    Find(FindJob),
    /// Hash content in the store.
    Digest(DigestJob),
    /// Read these bytes of a file, to see how long it takes.
    Time(Path, u64, u64),
}

/// Stored content to hash.
#[derive(Debug)]
pub struct DigestJob {
    /// The file's original path.
    pub path: Path,
    /// The whole file, or one block of it.
    pub aspect: Aspect,
    /// The ranges that the digest covers.
    pub head: FileHead,
    /// The store's copy, open.
    pub copy: File,
}

/// A file's content to read.
#[derive(Clone, Debug)]
pub struct FileJob {
    /// The file's original path.
    pub path: Path,
    /// The whole file, or one block of it.
    pub aspect: Aspect,
    /// What the store has already.
    pub have: Option<FileHead>,
    /// The file is executed: the ranges that the loader maps are enough.
    pub execute: bool,
    /// Larger content is not read.
    pub content_bytes_max: u64,
    /// Of a larger file nothing is read.
    pub file_bytes_max: u64,
    /// The target of the content.
    pub incoming: Arc<Incoming>,
}

impl FileJob {
    /// Returns the block to read; `None` for the whole file.
    pub fn block(&self) -> Option<u32> {
        match self.aspect {
            Aspect::Block(number) => Some(number),
            _ => None,
        }
    }
}

/// The result of a [`ReadJob`].
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it lives for one call; boxing would cost more")]
pub enum ReadEvent {
    /// The answer to a job for an entry or a listing.
    Fact(Path, Aspect, Fact),
    /// The answer to a job for details.
    Details(Path, Vec<Detail>),
    /// A step of a job for content.
    File(FileJob, FileEvent),
    /// The answer to a search in the cache: what is in the store now.
    Found(FindJob, Option<(FileHead, Digest)>),
    /// The answer to a job for a digest; `None` if the copy can't be read.
    Digest(Path, Aspect, Option<Digest>),
    /// The microseconds that a read took, opening included; `None` if it failed.
    Timed(Path, Option<u64>),
}

/// A step of a [`FileJob`].
#[derive(Debug)]
pub enum FileEvent {
    /// The file is open. If it is larger than allowed, this is the last event.
    Opened(FileHead),
    /// The content is in the store up to this position.
    Read(u64),
    /// The file was opened, and all of its content is in the store.
    All(FileHead),
    /// The job ended early.
    Failed(FileError),
}

/// Why a [`FileJob`] ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileError {
    /// The shared file system returned an error.
    Source(Errno),
    /// The store failed.
    Store,
    /// The content was discarded.
    GivenUp,
}

/// Files that are open from the start, each to be read once.
pub type Opened = HashMap<Path, OwnedFd>;
