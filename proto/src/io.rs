//! What goes into a node and what comes out.

use headwater_abi::wire::{Aspect, Fact, FileHead, Message, TransferId};
use headwater_abi::{Path, Want};

use crate::topology::Rank;

/// Milliseconds since any fixed moment; only differences matter, and it never goes back.
pub type Time = u64;

/// The driver's number for a request of a process; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// The final answer to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// What is known is published: look again.
    Done,
    /// Use the original.
    Fallback,
}

/// Something happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// A process asks.
    Request {
        /// Its number, to be answered by exactly one [`Output::Reply`] unless it goes away.
        client: ClientId,
        /// The path; `..` is resolved by the node along the directory tree.
        path: Path,
        /// What it wants.
        want: Want,
    },
    /// A process no longer waits.
    ClientGone {
        /// Its number.
        client: ClientId,
    },
    /// A link to this peer stands, and its `Hello` has been checked.
    PeerUp {
        /// The peer.
        rank: Rank,
    },
    /// The link is gone; nothing more comes from it, and what was sent may be lost.
    PeerDown {
        /// The peer.
        rank: Rank,
    },
    /// A message from a peer; a chunk's bytes are already in the store.
    Message {
        /// The peer.
        from: Rank,
        /// The message.
        message: Message,
    },
    /// One [`Output::SendChunk`] has been handed to the network.
    ChunkSent {
        /// The peer it went to.
        to: Rank,
    },
    /// Answer to [`Output::ReadEntry`] and [`Output::ReadListing`].
    FactRead {
        /// The path.
        path: Path,
        /// What was asked for.
        aspect: Aspect,
        /// What the shared file system said.
        fact: Fact,
    },
    /// First answer to [`Output::ReadFile`]: the file is open.
    FileOpened {
        /// The path.
        path: Path,
        /// What was asked for.
        aspect: Aspect,
        /// What it looks like.
        head: FileHead,
    },
    /// The bytes of an open file up to this position of its content are in the store.
    FileRead {
        /// The path.
        path: Path,
        /// What was asked for.
        aspect: Aspect,
        /// End of what is there; the file is complete when it equals the head's `content_bytes`.
        position: u64,
    },
    /// Last answer to [`Output::ReadFile`] if it fails, before or after opening.
    FileFailed {
        /// The path.
        path: Path,
        /// What was asked for.
        aspect: Aspect,
        /// The error number.
        errno: u16,
    },
    /// The store could not take this content (no space): it is given up, and its clients use the
    /// original.
    StoreFailed {
        /// The path.
        path: Path,
    },
    /// An [`Output::Evict`] was refused, because a process has the file open or mapped.
    EvictRefused {
        /// The path.
        path: Path,
    },
}

/// Something is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Answer a process. Everything published before it in the stream of outputs is visible to it.
    Reply {
        /// The process.
        client: ClientId,
        /// The answer.
        reply: Reply,
    },
    /// Send a message.
    Send {
        /// The peer.
        to: Rank,
        /// The message; never a chunk.
        message: Message,
    },
    /// Send bytes of content from the store; answered by [`Input::ChunkSent`].
    SendChunk {
        /// The peer.
        to: Rank,
        /// This node's number for the transfer.
        transfer: TransferId,
        /// The file.
        path: Path,
        /// Where in the content the bytes stand.
        position: u64,
        /// Where in the file they stand.
        offset: u64,
        /// How many they are.
        bytes: u32,
    },
    /// Read what a path is (reader only).
    ReadEntry {
        /// The path.
        path: Path,
    },
    /// Read a directory (reader only).
    ReadListing {
        /// The path.
        path: Path,
    },
    /// Read content into the store (reader only). Answered by `FileOpened`, then `FileRead`s; or
    /// `FileFailed`.
    ReadFile {
        /// The path.
        path: Path,
        /// [`Aspect::Loadable`] or [`Aspect::Whole`].
        aspect: Aspect,
        /// The ranges that the store already holds, to be skipped where the whole is read.
        have: Option<FileHead>,
        /// True if the content is wanted for executing: the reader then also checks for file
        /// capabilities.
        execute: bool,
    },
    /// A peer will send this content: make room for it. Its chunks are to be written at
    /// `head.locate(position)` before they are given to the node.
    Receive {
        /// The peer.
        from: Rank,
        /// The peer's number for the transfer.
        transfer: TransferId,
        /// The file.
        path: Path,
        /// What it looks like.
        head: FileHead,
    },
    /// Forget what has arrived of this content.
    Discard {
        /// The file.
        path: Path,
    },
    /// Make something visible to processes.
    Publish(Publication),
    /// Remove content from the store: clear its residency, then the file. It may be refused.
    Evict {
        /// The file.
        path: Path,
    },
    /// A peer broke the protocol: close the link.
    Disconnect {
        /// The peer.
        rank: Rank,
        /// What it did, for the log.
        reason: &'static str,
    },
}

/// What becomes visible in the node's table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Publication {
    /// A fact.
    Fact {
        /// The path.
        path: Path,
        /// The fact.
        fact: Fact,
    },
    /// Content that is complete in the store.
    Content {
        /// The path.
        path: Path,
        /// [`Aspect::Loadable`] or [`Aspect::Whole`].
        aspect: Aspect,
        /// What it looks like.
        head: FileHead,
    },
    /// The same bytes are already in the store under another name of the same inode: link to it.
    HardLink {
        /// The new name.
        path: Path,
        /// The name whose content is complete.
        target: Path,
        /// What is complete there.
        aspect: Aspect,
        /// What it looks like.
        head: FileHead,
    },
    /// The job changes this path: its original is to be used, and its directory's listing too.
    Live {
        /// The path.
        path: Path,
        /// Everything below it too.
        tree: bool,
    },
}

/// What a node has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in the summary")]
pub struct Stats {
    pub requests: u64,
    pub fallbacks: u64,
    pub entries: u64,
    pub store_bytes: u64,
    pub store_files: u64,
    pub evictions: u64,
    pub pushes: u64,
    pub pulls: u64,
}
