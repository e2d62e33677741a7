//! A node's inputs and outputs.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use headwater_abi::wire::{Aspect, Change, Detail, Digest, Fact, FileHead, Message, TransferId};
use headwater_abi::{Path, Want};

use crate::topology::Rank;

/// Milliseconds since the node was made; it never goes back.
pub type Time = u64;

/// The driver's number for a request of a process; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// The other end of a link, by its role. Two ranks may have a link in each direction, for different trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// A rank that this node sends requests to; this node dialled it.
    Parent(Rank),
    /// A rank that sends requests to this node.
    Child(Rank),
}

impl Peer {
    /// Returns the rank at the other end.
    pub fn rank(self) -> Rank {
        match self {
            Peer::Parent(rank) | Peer::Child(rank) => rank,
        }
    }
}

/// The final answer to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// What is known is published: the client looks the path up again.
    Done,
    /// The client uses the source file.
    Fallback,
}

/// An event.
#[derive(Clone, Debug)]
pub enum Input {
    /// A process requests a path.
    Request {
        /// Its number; it gets exactly one [`Output::Reply`] unless it goes away.
        client: ClientId,
        /// The path; `..` is resolved by the node along the directory tree.
        path: Path,
        /// What it needs.
        want: Want,
    },
    /// The driver requests something ahead of processes. It is handled like a request of a process, but does
    /// not count as demand, and fails if other content would have to be evicted.
    Preload {
        /// Its number, as in [`Input::Request`].
        client: ClientId,
        /// The path.
        path: Path,
        /// What is needed.
        want: Want,
    },
    /// A process reads a block of a large file.
    RequestBlock {
        /// Its number, as in [`Input::Request`].
        client: ClientId,
        /// The file's canonical path.
        path: Path,
        /// The block, counted from zero.
        block: u32,
    },
    /// A process has used content that was published as marked.
    Used {
        /// The file.
        path: Path,
        /// The block; `None` if the content was published as a whole.
        block: Option<u32>,
    },
    /// A process no longer waits.
    ClientGone {
        /// Its number.
        client: ClientId,
    },
    /// A link to this peer is up, and its `Hello` has been checked.
    PeerUp {
        /// The peer.
        peer: Peer,
    },
    /// The link is down; nothing more arrives from it, and what was sent may be lost.
    PeerDown {
        /// The peer.
        peer: Peer,
    },
    /// A message from a peer. The bytes of a chunk are already stored; before [`Message::End`] and
    /// [`Message::Content`] they have been checked against the digest.
    Message {
        /// The peer.
        from: Peer,
        /// The message.
        message: Message,
    },
    /// Received content does not match the digest of [`Message::End`].
    Corrupt {
        /// The parent that sent it.
        from: Rank,
        /// The parent's number for the transfer.
        transfer: TransferId,
    },
    /// The bytes of [`Message::Content`] do not match its digest.
    CorruptContent {
        /// The parent that sent it.
        from: Rank,
        /// The path.
        path: Path,
    },
    /// Answer to [`Output::Digest`].
    Digested {
        /// The path.
        path: Path,
        /// The requested aspect.
        aspect: Aspect,
        /// The digest; `None` if the content can't be read.
        digest: Option<Digest>,
    },
    /// One [`Output::SendChunk`] or [`Output::SendContent`] has been handed to the network.
    ChunkSent {
        /// The child that it was sent to.
        to: Rank,
    },
    /// Answer to [`Output::ReadEntry`] and [`Output::ReadListing`].
    FactRead {
        /// The path.
        path: Path,
        /// The requested aspect.
        aspect: Aspect,
        /// The fact that was read.
        fact: Fact,
    },
    /// Answer to [`Output::ReadDetails`].
    DetailsRead {
        /// The directory.
        path: Path,
        /// The facts about its names. Names that could not be examined are missing.
        details: Vec<Detail>,
    },
    /// First answer to [`Output::ReadFile`]: the file is open.
    FileOpened {
        /// The path.
        path: Path,
        /// The requested aspect.
        aspect: Aspect,
        /// Its head.
        head: FileHead,
    },
    /// The bytes of an open file up to this position of its content are stored.
    FileRead {
        /// The path.
        path: Path,
        /// The requested aspect.
        aspect: Aspect,
        /// End of the stored bytes; the file is complete when it equals the head's `content_bytes`.
        position: u64,
    },
    /// Last answer to [`Output::ReadFile`] if it fails, before or after opening.
    FileFailed {
        /// The path.
        path: Path,
        /// The requested aspect.
        aspect: Aspect,
        /// The error number.
        errno: u16,
    },
    /// The store could not take this content (no space): it is dropped, and its clients use the source file.
    StoreFailed {
        /// The path.
        path: Path,
        /// The block; `None` for content in one piece.
        block: Option<u32>,
    },
    /// An [`Output::Evict`] was refused, because a process has the file open or mapped.
    EvictRefused {
        /// The path.
        path: Path,
    },
    /// The store's limit has changed. Content beyond it is evicted in steps; the driver repeats the input
    /// while [`Stats::store_bytes`] exceeds the limit.
    Room {
        /// The new limit, in place of [`Limits::store_bytes_max`](crate::Limits::store_bytes_max).
        store_bytes_max: u64,
    },
    /// The user clears content. Answered by [`Output::Cleared`], behind the resulting [`Output::Evict`]s.
    Clear {
        /// The path.
        path: Path,
        /// Everything below it too.
        subtree: bool,
        /// The path at which an earlier answer stopped.
        after: Option<Path>,
    },
    /// The user refreshes: what has changed on the shared file system is to be read again. Answered by one
    /// [`Output::Refreshed`] or [`Output::RefreshFailed`].
    Refresh {
        /// The driver's number for it.
        request: u64,
        /// Paths at and below which to check, at most half of
        /// [`CHANGES_MAX`](headwater_abi::wire::CHANGES_MAX); if there are none, everywhere.
        paths: Vec<Path>,
    },
    /// The driver could not execute an [`Output::Generation`]: what was published stays, and this node serves
    /// what has changed from the source files.
    GenerationFailed {
        /// The changes of that generation.
        changes: Option<Vec<Change>>,
    },
    /// No process uses an older generation any more, and its content was removed from the store.
    GenerationGone {
        /// Its number.
        generation: u64,
    },
}

/// An action for the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Link to this rank, as its child; retry until that succeeds or [`Output::HangUp`] follows.
    Dial {
        /// The rank.
        rank: Rank,
    },
    /// End the link to this rank, or the attempts to make it.
    HangUp {
        /// The rank.
        rank: Rank,
    },
    /// Answer a process. It sees everything that was published before.
    Reply {
        /// The process.
        client: ClientId,
        /// The answer.
        reply: Reply,
    },
    /// Send a message.
    Send {
        /// The peer.
        to: Peer,
        /// The message; never one with bytes of content.
        message: Message,
    },
    /// Send [`Message::Content`] with its bytes from the store, or [`Message::Unavailable`] if they were
    /// evicted; answered by [`Input::ChunkSent`].
    SendContent {
        /// The child.
        to: Rank,
        /// The path.
        path: Path,
        /// [`Aspect::Loadable`] or [`Aspect::Whole`].
        aspect: Aspect,
        /// Its head.
        head: Arc<FileHead>,
        /// The digest of its bytes.
        digest: Digest,
    },
    /// Send bytes of content from the store; answered by [`Input::ChunkSent`].
    SendChunk {
        /// The child.
        to: Rank,
        /// This node's number for the transfer.
        transfer: TransferId,
        /// The file.
        path: Path,
        /// The block; `None` for content in one piece.
        block: Option<u32>,
        /// Position of the bytes in the content.
        position: u64,
        /// Offset of the bytes in the file.
        offset: u64,
        /// Number of bytes.
        bytes: u32,
    },
    /// Read the entry of a path (reader only).
    ReadEntry {
        /// The path.
        path: Path,
    },
    /// Read a directory (reader only).
    ReadListing {
        /// The path.
        path: Path,
    },
    /// Read the facts about these names of a directory (reader only); answered by one [`Input::DetailsRead`].
    ReadDetails {
        /// The directory.
        path: Path,
        /// The names.
        names: Vec<Box<[u8]>>,
    },
    /// Read content into the store (reader only). Answered by `FileOpened`, then `FileRead`s; or
    /// `FileFailed`.
    ReadFile {
        /// The path.
        path: Path,
        /// [`Aspect::Loadable`], [`Aspect::Whole`] or [`Aspect::Block`].
        aspect: Aspect,
        /// The stored ranges, to be skipped. For a block it has at least the file's attributes.
        have: Option<FileHead>,
        /// True if the content is to be executed: the reader then also checks for file capabilities.
        execute: bool,
        /// Content of more bytes is opened and not read: only `FileOpened` follows, and the file stays open
        /// for its blocks.
        content_bytes_max: u64,
    },
    /// A parent will send this content: reserve space. Chunks are written at `head.locate(position)` before
    /// the node gets them.
    Receive {
        /// The parent.
        from: Rank,
        /// The peer's number for the transfer.
        transfer: TransferId,
        /// The file.
        path: Path,
        /// The block; `None` for content in one piece.
        block: Option<u32>,
        /// Its head.
        head: FileHead,
        /// Bytes of the content that have arrived from another rank and stay.
        position: u64,
        /// What is published of a file in one piece: no published byte is written again, so it can't become
        /// wrong.
        have: Option<FileHead>,
    },
    /// Compute the digest of content in the store; answered by [`Input::Digested`].
    Digest {
        /// The file.
        path: Path,
        /// [`Aspect::Loadable`], [`Aspect::Whole`] or [`Aspect::Block`].
        aspect: Aspect,
        /// Its head.
        head: FileHead,
    },
    /// A parent has sent wrong content, which is requested from another rank.
    Mismatch {
        /// The file.
        path: Path,
        /// The parent.
        from: Rank,
    },
    /// Discard what has arrived of this content.
    Discard {
        /// The file.
        path: Path,
        /// The block; `None` for content in one piece.
        block: Option<u32>,
    },
    /// Make something visible to processes.
    Publish(Publication),
    /// Remove content from the store, blocks included: clear its residency, then remove the file. The store
    /// may refuse.
    Evict {
        /// The file.
        path: Path,
    },
    /// The record of this path may be removed. If it is published again, it is the same.
    Forget {
        /// The path.
        path: Path,
    },
    /// The source file has changed or vanished since it was published; it is a passthrough path now. Reported
    /// once, by the node that has noticed it.
    Changed {
        /// The path.
        path: Path,
    },
    /// The clearing is done, as far as it could be done at once.
    Cleared {
        /// As in the request.
        path: Path,
        /// As in the request.
        subtree: bool,
        /// The path at which another [`Input::Clear`] continues.
        next: Option<Path>,
        /// Files that stay because they are being received or sent.
        in_transit: u64,
    },
    /// Drop all caches of look-ups: directories may have been replaced (reader only).
    DropLookupCache,
    /// Begin this generation. What was published stays, except for the changes; processes that began with an
    /// earlier generation continue with that.
    Generation {
        /// Its number; generations ascend.
        generation: u64,
        /// Paths whose records are dropped; `None`: all.
        changes: Option<Vec<Change>>,
        /// All passthrough paths, and whether everything below them is passed through too. Other paths no
        /// longer are.
        passthrough: Vec<(Path, bool)>,
    },
    /// Answer to [`Input::Refresh`]: the generation that has all changes; without changes, the current one.
    Refreshed {
        /// The driver's number.
        request: u64,
        /// The generation.
        generation: u64,
        /// Number of known paths that have changed; `None` if unknown.
        changed: Option<u64>,
    },
    /// Answer to [`Input::Refresh`]: the parent can't be reached.
    RefreshFailed {
        /// The driver's number.
        request: u64,
    },
    /// A peer broke the protocol: close the link.
    Disconnect {
        /// The peer.
        peer: Peer,
        /// The breach, for the log.
        reason: &'static str,
    },
}

/// A change of the node's table.
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
        /// Its head.
        head: FileHead,
        /// True if the driver reports its use with [`Input::Used`].
        is_marked: bool,
    },
    /// The same, of content that arrived with the message that is being handled and is stored first.
    Arrived {
        /// The path.
        path: Path,
        /// [`Aspect::Loadable`] or [`Aspect::Whole`].
        aspect: Aspect,
        /// Its head.
        head: FileHead,
        /// What of it is published already: see [`Output::Receive`].
        have: Option<FileHead>,
        /// True if the driver reports its use with [`Input::Used`].
        is_marked: bool,
    },
    /// A block that is complete in the store, in the file's sparse copy. When all are, the content is
    /// published too.
    Block {
        /// The file.
        path: Path,
        /// The block, counted from zero.
        block: u32,
        /// The block's head.
        head: FileHead,
        /// True if the driver reports its use with [`Input::Used`].
        is_marked: bool,
    },
    /// The same bytes are stored under another name of the same inode: link to it.
    HardLink {
        /// The new name.
        path: Path,
        /// The name whose content is complete.
        target: Path,
        /// The aspect that is complete there.
        aspect: Aspect,
        /// Its head.
        head: FileHead,
    },
    /// The job changes this path: its source file is used, and its directory's source for listings.
    Passthrough {
        /// The path.
        path: Path,
        /// Everything below it too.
        tree: bool,
    },
    /// Programs run that don't announce their changes: processes compare what is known with the source file
    /// before they use it.
    Unaudited,
}

/// How much a node stores on behalf of its processes and peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Requests of processes that wait: at most [`Limits::clients_waiting_max`](crate::Limits).
    pub clients: usize,
    /// Pending requests: at most [`Limits::pending_max`](crate::Limits).
    pub pending: usize,
    /// Children that wait for one request, the largest number: at most one for each child and tree.
    pub waiting: usize,
    /// Pieces in transit to one child, the largest number: at most [`Limits::transfers_max`](crate::Limits).
    pub outgoing: usize,
    /// Pieces in transit from one parent, the largest number: the same limit.
    pub incoming: usize,
    /// Pieces that have lost their sender: at most one for each pending request.
    pub orphans: usize,
    /// Files to be read, requested or not any more: at most twice the pending requests, and 64.
    pub reads_waiting: usize,
    /// Paths in the order in which they may be forgotten: at most twice
    /// [`Limits::entries_max`](crate::Limits), and 64.
    pub forgettable: usize,
    /// Directories that were listed, in that order: the same limit.
    pub listed: usize,
    /// Versions to be reported for one tree, the largest number: at most 65,536.
    pub unreported: usize,
}

/// A node's counters.
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
    pub forgotten: u64,
    pub changed: u64,
}
