//! What the pool is asked to read, and what it answers.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use headwater_abi::Path;
use headwater_abi::wire::{Aspect, Detail, Digest, Fact, FileHead};
use headwater_store::Incoming;
use rustix::io::Errno;

/// What is to be read.
#[derive(Debug)]
pub enum ReadJob {
    /// What a path is, by its name alone.
    Entry(Path),
    /// A directory's names.
    Listing(Path),
    /// What these names of a directory are.
    Details(Path, Vec<Box<[u8]>>),
    /// A file's content.
    File(FileJob),
    /// The digest of content in the store.
    Digest(DigestJob),
}

/// Content in the store whose digest is wanted.
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

/// One file's content.
#[derive(Clone, Debug)]
pub struct FileJob {
    /// The file's original path.
    pub path: Path,
    /// The whole file, or one block of it.
    pub aspect: Aspect,
    /// What the store holds already.
    pub have: Option<FileHead>,
    /// The file is executed: the ranges that the loader maps are enough.
    pub execute: bool,
    /// Content of more bytes is not read.
    pub content_bytes_max: u64,
    /// Where the content goes.
    pub incoming: Arc<Incoming>,
}

impl FileJob {
    /// The block that is to be read; `None` if it is the file in one piece.
    pub fn block(&self) -> Option<u32> {
        match self.aspect {
            Aspect::Block(number) => Some(number),
            _ => None,
        }
    }
}

/// What came of a [`ReadJob`].
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it lives for one call; boxing would cost more")]
pub enum ReadEvent {
    /// The answer to a job for an entry or a listing.
    Fact(Path, Aspect, Fact),
    /// The answer to a job for details.
    Details(Path, Vec<Detail>),
    /// A step of a job for content.
    File(FileJob, FileEvent),
    /// The answer to a job for a digest; none if the copy can't be read.
    Digest(Path, Aspect, Option<Digest>),
}

/// What happens on the way of a [`FileJob`].
#[derive(Debug)]
pub enum FileEvent {
    /// It is open. If it is larger than was wanted, nothing follows.
    Opened(FileHead),
    /// The bytes up to this position of its content are in the store.
    Read(u64),
    /// It was opened, and all of its content is in the store.
    All(FileHead),
    /// It ended early.
    Failed(FileError),
}

/// Why a [`FileJob`] ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileError {
    /// The shared file system said so.
    Source(Errno),
    /// The store could not take the content.
    Store,
    /// Nobody wants it any more.
    GivenUp,
}

/// Files that are open already, each to be read once.
pub type Opened = HashMap<Path, OwnedFd>;
