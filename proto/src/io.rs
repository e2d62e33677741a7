//! A node's inputs and outputs.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use headwater_abi::wire::{Aspect, Change, Detail, Digest, Fact, FileHead, Message, TransferId};
use headwater_abi::{Attr, Path, Want};

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

/// An event. A `client` is the driver's number for a request. A `block` is counted from zero; `None` stands for
/// content in one piece.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the variants' descriptions name their fields")]
pub enum Input {
    /// A process requests a path, in which `..` is resolved by the node along the directory tree. It gets exactly
    /// one [`Output::Reply`] unless it goes away.
    Request { client: ClientId, path: Path, want: Want },
    /// The driver requests something ahead of processes, or one block of a large file by its canonical path. It is
    /// handled like a request of a process, but does not count as demand, and fails if other content would have to be
    /// evicted.
    Preload { client: ClientId, path: Path, want: Want, block: Option<u32> },
    /// A process reads a block of a large file, by its canonical path.
    RequestBlock { client: ClientId, path: Path, block: u32 },
    /// Answer to [`Output::Settle`].
    Settled { number: u32 },
    /// A process has used content that was published as marked.
    Used { path: Path, block: Option<u32> },
    /// A process no longer waits.
    ClientGone { client: ClientId },
    /// A link to this peer is up, and its `Hello` has been checked.
    PeerUp { peer: Peer },
    /// The link is down; nothing more arrives from it, and what was sent may be lost.
    PeerDown { peer: Peer },
    /// No process listens at this parent's address.
    ParentAbsent { rank: Rank },
    /// A message from a peer. The bytes of a chunk are already stored; before [`Message::End`] and
    /// [`Message::Content`] they have been checked against the digest.
    Message { from: Peer, message: Message },
    /// Content received from a parent, under its number, does not match the digest of [`Message::End`].
    Corrupt { from: Rank, transfer: TransferId },
    /// The bytes of a parent's [`Message::Content`] do not match its digest.
    CorruptContent { from: Rank, path: Path },
    /// Answer to [`Output::Digest`]. There is no digest if the content can't be read.
    Digested { path: Path, aspect: Aspect, digest: Option<Digest> },
    /// One [`Output::SendChunk`] or [`Output::SendContent`] to this child has been handed to the network.
    ChunkSent { to: Rank },
    /// Answer to [`Output::ReadEntry`] and [`Output::ReadListing`].
    FactRead { path: Path, aspect: Aspect, fact: Fact },
    /// Answer to [`Output::ReadDetails`]: the facts about a directory's names. Names that could not be examined
    /// are missing.
    DetailsRead { path: Path, details: Vec<Detail> },
    /// First answer to [`Output::ReadFile`]: the file is open.
    FileOpened { path: Path, aspect: Aspect, head: FileHead },
    /// The bytes of an open file up to this position of its content are stored. The file is complete when it
    /// equals the head's `content_bytes`.
    FileRead { path: Path, aspect: Aspect, position: u64 },
    /// Last answer to [`Output::ReadFile`] if it fails, before or after opening.
    FileFailed { path: Path, aspect: Aspect, errno: u16 },
    /// Answer to [`Output::FindCached`]: the head and digest of what was found. All of it is in the store.
    Cached { path: Path, aspect: Aspect, found: Option<(FileHead, Digest)> },
    /// Answer to [`Output::TimeRead`]: the microseconds that it took, opening included; `None` if it failed.
    ReadTimed { path: Path, us: Option<u64> },
    /// The store could not take this content (no space): it is dropped, and its clients use the source file.
    StoreFailed { path: Path, block: Option<u32> },
    /// An [`Output::Evict`] was refused, because a process has the file open or mapped.
    EvictRefused { path: Path },
    /// The store's limit has changed: this replaces [`Limits::store_bytes_max`](crate::Limits::store_bytes_max).
    /// Content beyond it is evicted in steps; the driver repeats the input while [`Stats::store_bytes`] exceeds
    /// the limit.
    Room { store_bytes_max: u64 },
    /// The user clears content of a path, with `subtree` everything below it too. Answered by
    /// [`Output::Cleared`], behind the resulting [`Output::Evict`]s. Continues `after` the path at which an
    /// earlier answer stopped.
    Clear { path: Path, subtree: bool, after: Option<Path> },
    /// The user refreshes, by the driver's number: what has changed on the shared file system is to be read
    /// again, at and below at most half of [`CHANGES_MAX`](headwater_abi::wire::CHANGES_MAX) paths; if there are
    /// none, everywhere. Answered by one [`Output::Refreshed`] or [`Output::RefreshFailed`].
    Refresh { request: u64, paths: Vec<Path> },
    /// The driver could not execute an [`Output::Generation`] with these changes: what was published stays, and
    /// this node serves what has changed from the source files.
    GenerationFailed { changes: Option<Vec<Change>> },
    /// No process uses an older generation any more, and its content was removed from the store.
    GenerationGone { generation: u64 },
}

/// An action for the driver. A `block` is counted from zero; `None` stands for content in one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants' descriptions name their fields")]
pub enum Output {
    /// Link to this rank, as its child; retry until that succeeds or [`Output::HangUp`] follows.
    Dial { rank: Rank },
    /// End the link to this rank, or the attempts to make it.
    HangUp { rank: Rank },
    /// Answer a process. It sees everything that was published before.
    Reply { client: ClientId, reply: Reply },
    /// Send a message; never one with bytes of content.
    Send { to: Peer, message: Message },
    /// Send a child [`Message::Content`] ([`Aspect::Loadable`] or [`Aspect::Whole`]) with its bytes from the
    /// store, or [`Message::Unavailable`] if they were evicted; answered by [`Input::ChunkSent`].
    SendContent { to: Rank, path: Path, aspect: Aspect, head: Arc<FileHead>, digest: Digest },
    /// Send a child bytes of content from the store; answered by [`Input::ChunkSent`].
    SendChunk {
        to: Rank,
        /// This node's number for the transfer.
        transfer: TransferId,
        path: Path,
        block: Option<u32>,
        /// Position of the bytes in the content.
        position: u64,
        /// Offset of the bytes in the file.
        offset: u64,
        bytes: u32,
    },
    /// Read the entry of a path (reader only).
    ReadEntry { path: Path },
    /// Read a directory (reader only).
    ReadListing { path: Path },
    /// Read the facts about these names of a directory (reader only); answered by one [`Input::DetailsRead`].
    ReadDetails { path: Path, names: Vec<Box<[u8]>> },
    /// Read content into the store (reader only). Answered by `FileOpened`, then `FileRead`s; or
    /// `FileFailed`.
    ReadFile {
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
        /// Of a larger file nothing is read: only `FileOpened` follows.
        file_bytes_max: u64,
    },
    /// Read these bytes of a file from the file system, on any node, to see how long it takes; store nothing. Answered
    /// by [`Input::ReadTimed`].
    TimeRead { path: Path, offset: u64, bytes: u64 },
    /// Look for content on this node that an earlier session has left, of a file with these attributes.
    FindCached {
        path: Path,
        aspect: Aspect,
        attr: Attr,
        /// The stored ranges, to be skipped.
        have: Option<FileHead>,
    },
    /// A parent will send this content: reserve space. Chunks are written at `head.locate(position)` before
    /// the node gets them.
    Receive {
        from: Rank,
        /// The parent's number for the transfer.
        transfer: TransferId,
        path: Path,
        block: Option<u32>,
        head: FileHead,
        /// Bytes of the content that have arrived from another rank and stay.
        position: u64,
        /// What is published of a file in one piece: no published byte is written again, so it can't become
        /// wrong.
        have: Option<FileHead>,
    },
    /// Compute the digest of content in the store ([`Aspect::Loadable`], [`Aspect::Whole`] or
    /// [`Aspect::Block`]); answered by [`Input::Digested`].
    Digest { path: Path, aspect: Aspect, head: FileHead },
    /// A parent has sent wrong content, which is requested from another rank.
    Mismatch { path: Path, from: Rank },
    /// Discard what has arrived of this content.
    Discard { path: Path, block: Option<u32> },
    /// Make something visible to processes.
    Publish(Publication),
    /// Answer with [`Input::Settled`] once no process of this node can see what earlier publications contradict: the
    /// kernel has forgotten it. If that has to wait for a process that waits for this node, don't wait.
    Settle { number: u32 },
    /// Remove content from the store, blocks included: clear its residency, then remove the file. The store
    /// may refuse.
    Evict { path: Path },
    /// The record of this path may be removed. If it is published again, it is the same.
    Forget { path: Path },
    /// The source file has changed or vanished since it was published; it is a passthrough path now. Reported
    /// once, by the node that has noticed it.
    Changed { path: Path },
    /// The requested clearing is done, as far as it could be done at once; another [`Input::Clear`] continues at
    /// `next`. Counts files that stay because they are being received or sent.
    Cleared { path: Path, subtree: bool, next: Option<Path>, in_transit: u64 },
    /// Drop all caches of look-ups: directories may have been replaced (reader only).
    DropLookupCache,
    /// Begin this generation; generations ascend. What was published stays, except for the changes; processes
    /// that began with an earlier generation continue with that.
    Generation {
        generation: u64,
        /// Paths whose records are dropped; `None`: all.
        changes: Option<Vec<Change>>,
        /// All passthrough paths, and whether everything below them is passed through too. Other paths no
        /// longer are.
        passthrough: Vec<(Path, bool)>,
    },
    /// Answer to [`Input::Refresh`]: the generation that has all changes, and how many known paths have changed,
    /// `None` if unknown; without changes, the current generation.
    Refreshed { request: u64, generation: u64, changed: Option<u64> },
    /// Answer to [`Input::Refresh`]: the parent can't be reached.
    RefreshFailed { request: u64 },
    /// A peer broke the protocol: close the link. The reason is for the log.
    Disconnect { peer: Peer, reason: &'static str },
}

/// A change of the node's table. The driver reports the use of what `is_marked` with [`Input::Used`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants' descriptions name their fields")]
pub enum Publication {
    /// A fact.
    Fact { path: Path, fact: Fact },
    /// Content ([`Aspect::Loadable`] or [`Aspect::Whole`]) that is complete in the store.
    Content { path: Path, aspect: Aspect, head: FileHead, is_marked: bool },
    /// The same, of content that arrived with the message that is being handled and is stored first. `have` is
    /// published already: see [`Output::Receive`].
    Arrived { path: Path, aspect: Aspect, head: FileHead, have: Option<FileHead>, is_marked: bool },
    /// A block, counted from zero, that is complete in the store, in the file's sparse copy. When all are, the
    /// content is published too.
    Block { path: Path, block: u32, head: FileHead, is_marked: bool },
    /// The same bytes are stored under another name of the same inode, the `target`, where this aspect is
    /// complete: link to it.
    HardLink { path: Path, target: Path, aspect: Aspect, head: FileHead },
    /// Processes read the source file of this path, whose content is not stored.
    Direct { path: Path },
    /// Processes under audit read this path in the node's mount. `head` describes some of its content.
    InMount { path: Path, head: FileHead },
    /// The job changes this path, with `tree` everything below it: its source file is used, and its directory's
    /// source for listings.
    Passthrough { path: Path, tree: bool },
    /// Programs run that don't announce their changes: processes compare what is known with the source file
    /// before they use it.
    Unaudited,
}

/// A predecessor's publication about a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Memory {
    /// What it is.
    Fact(Fact),
    /// All of its content is stored. Its fact comes before.
    Content {
        /// Its head.
        head: FileHead,
        /// Whether a path that was restored before shares the stored file.
        is_linked: bool,
    },
    /// A passthrough path, and with `tree` everything below it. All facts come before.
    Passthrough {
        /// Everything below it too.
        tree: bool,
    },
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
