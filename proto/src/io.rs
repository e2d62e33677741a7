//! What goes into a node and what comes out.

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

/// The other end of a link, by what it is to this node. Two ranks may have a link of either kind between
/// them, one in some trees and one in others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// A rank that this node asks; this node has dialled it.
    Parent(Rank),
    /// A rank that asks this node.
    Child(Rank),
}

impl Peer {
    /// The rank at the other end.
    pub fn rank(self) -> Rank {
        match self {
            Peer::Parent(rank) | Peer::Child(rank) => rank,
        }
    }
}

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
    /// The driver wants something ahead of processes. It is as if a process asked, but nothing is concluded
    /// from it about what processes do, and content for which others would have to go is refused.
    Preload {
        /// Its number, as in [`Input::Request`].
        client: ClientId,
        /// The path.
        path: Path,
        /// What is wanted.
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
    /// A link to this peer stands, and its `Hello` has been checked.
    PeerUp {
        /// The peer.
        peer: Peer,
    },
    /// The link is gone; nothing more comes from it, and what was sent may be lost.
    PeerDown {
        /// The peer.
        peer: Peer,
    },
    /// A message from a peer. A chunk's bytes are already in the store, and before [`Message::End`] they have
    /// been checked against its digest, as have those of [`Message::Content`].
    Message {
        /// The peer.
        from: Peer,
        /// The message.
        message: Message,
    },
    /// Content that has arrived is not what [`Message::End`] says.
    Corrupt {
        /// The parent that sent it.
        from: Rank,
        /// Its number for the transfer.
        transfer: TransferId,
    },
    /// The bytes of [`Message::Content`] are not what it says.
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
        /// What was asked about.
        aspect: Aspect,
        /// The digest; `None` if the content can't be read.
        digest: Option<Digest>,
    },
    /// One [`Output::SendChunk`] or [`Output::SendContent`] has been handed to the network.
    ChunkSent {
        /// The child it went to.
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
    /// Answer to [`Output::ReadDetails`].
    DetailsRead {
        /// The directory.
        path: Path,
        /// What its names are. What could not be examined is missing.
        details: Vec<Detail>,
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
        /// The block; `None` if it is about the content in one piece.
        block: Option<u32>,
    },
    /// An [`Output::Evict`] was refused, because a process has the file open or mapped.
    EvictRefused {
        /// The path.
        path: Path,
    },
    /// From now on the store may hold so many bytes. Of what is more, some is given up at once; the same
    /// input again goes on, as long as [`Stats::store_bytes`] is above it.
    Room {
        /// The new bound, in place of [`Limits::store_bytes_max`](crate::Limits::store_bytes_max).
        store_bytes_max: u64,
    },
    /// The user wants content to be given up. Answered by [`Output::Cleared`], behind the
    /// [`Output::Evict`]s that come of it.
    Clear {
        /// The path.
        path: Path,
        /// Everything below it too.
        subtree: bool,
        /// Where an earlier answer said that it goes on.
        after: Option<Path>,
    },
    /// The user wants what has changed on the shared file system to be read anew. Answered by one
    /// [`Output::Refreshed`] or [`Output::RefreshFailed`].
    Refresh {
        /// The driver's number for it.
        request: u64,
        /// Paths at and below which to look, at most half of
        /// [`CHANGES_MAX`](headwater_abi::wire::CHANGES_MAX); if there are none, everywhere.
        paths: Vec<Path>,
    },
    /// An [`Output::Generation`] could not be performed: what was published stays as it is, and what has
    /// changed is served by the originals on this node.
    GenerationFailed {
        /// The changes of that generation.
        changes: Option<Vec<Change>>,
    },
    /// Nobody uses an older generation any more, and its content has gone from the store.
    GenerationGone {
        /// Its number.
        generation: u64,
    },
}

/// Something is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Link to this rank, as its child; try until that succeeds or is no longer wanted.
    Dial {
        /// The rank.
        rank: Rank,
    },
    /// The link to this rank is no longer wanted, nor to be tried.
    HangUp {
        /// The rank.
        rank: Rank,
    },
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
        to: Peer,
        /// The message; never one with bytes of content.
        message: Message,
    },
    /// Send [`Message::Content`] with its bytes from the store; answered by [`Input::ChunkSent`]. If they have
    /// gone, [`Message::Unavailable`] is sent.
    SendContent {
        /// The child.
        to: Rank,
        /// The path.
        path: Path,
        /// [`Aspect::Loadable`] or [`Aspect::Whole`].
        aspect: Aspect,
        /// What it looks like.
        head: Arc<FileHead>,
        /// Of its bytes.
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
        /// The block; `None` if it goes in one piece.
        block: Option<u32>,
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
    /// Read what these names of a directory are (reader only); answered by one [`Input::DetailsRead`].
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
        /// The ranges that the store already holds, to be skipped. Of a block's file at least the
        /// attributes are told.
        have: Option<FileHead>,
        /// True if the content is wanted for executing: the reader then also checks for file
        /// capabilities.
        execute: bool,
        /// If the content has more bytes than this, it is opened and not read: nothing more comes behind
        /// `FileOpened`, and the file stays open for its blocks.
        content_bytes_max: u64,
    },
    /// A parent will send this content: make room for it. Its chunks are to be written at
    /// `head.locate(position)` before they are given to the node.
    Receive {
        /// The parent.
        from: Rank,
        /// The peer's number for the transfer.
        transfer: TransferId,
        /// The file.
        path: Path,
        /// The block; `None` if it comes in one piece.
        block: Option<u32>,
        /// What it looks like.
        head: FileHead,
        /// Bytes of the content that have arrived from elsewhere and stay as they are.
        position: u64,
        /// What is published of a file that comes in one piece: of that no byte is written again, so that
        /// nothing wrong ever stands there.
        have: Option<FileHead>,
    },
    /// Compute the digest of content in the store; answered by [`Input::Digested`].
    Digest {
        /// The file.
        path: Path,
        /// [`Aspect::Loadable`], [`Aspect::Whole`] or [`Aspect::Block`].
        aspect: Aspect,
        /// What it looks like.
        head: FileHead,
    },
    /// A parent has sent content that is not what it should be. It is fetched from elsewhere.
    Mismatch {
        /// The file.
        path: Path,
        /// The parent.
        from: Rank,
    },
    /// Forget what has arrived of this content.
    Discard {
        /// The file.
        path: Path,
        /// The block; `None` if it comes in one piece.
        block: Option<u32>,
    },
    /// Make something visible to processes.
    Publish(Publication),
    /// Remove content from the store, blocks included: clear its residency, then the file. It may be
    /// refused.
    Evict {
        /// The file.
        path: Path,
    },
    /// Nothing is known of this path any more: what was published may be taken back. If it is published
    /// again, it is the same.
    Forget {
        /// The path.
        path: Path,
    },
    /// The original has changed or vanished since it was published; it is live from now on. Said once,
    /// by the node that has noticed it.
    Changed {
        /// The path.
        path: Path,
    },
    /// The part of an [`Input::Clear`] that could be done at once is done.
    Cleared {
        /// As it was wanted.
        path: Path,
        /// As it was wanted.
        subtree: bool,
        /// Where it goes on, by another [`Input::Clear`].
        next: Option<Path>,
        /// Files that stay because they are being received or sent on.
        in_transit: u64,
    },
    /// Forget whatever makes looking a path up again quicker: directories may have been replaced
    /// (reader only).
    DropLookupCache,
    /// From here on everything is of this generation. What was published stays, but for the changes;
    /// who began with an earlier generation keeps that.
    Generation {
        /// Its number; generations ascend.
        generation: u64,
        /// Paths of which nothing is known any more; `None`: all.
        changes: Option<Vec<Change>>,
        /// All live paths, and whether everything below them is live too. Others are so no more.
        passthrough: Vec<(Path, bool)>,
    },
    /// Answer to [`Input::Refresh`]: this is the generation that has everything; if nothing has changed,
    /// it is the one that there was.
    Refreshed {
        /// The driver's number.
        request: u64,
        /// The generation.
        generation: u64,
        /// Paths that have changed, of those of which something was known; `None`: it is not known
        /// which.
        changed: Option<u64>,
    },
    /// Answer to [`Input::Refresh`]: the parent, who would have to be asked, can't be.
    RefreshFailed {
        /// The driver's number.
        request: u64,
    },
    /// A peer broke the protocol: close the link.
    Disconnect {
        /// The peer.
        peer: Peer,
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
        /// True if its use is to be told by [`Input::Used`].
        is_marked: bool,
    },
    /// The same, of content that came with the message that is being handled, and that is to be stored first.
    Arrived {
        /// The path.
        path: Path,
        /// [`Aspect::Loadable`] or [`Aspect::Whole`].
        aspect: Aspect,
        /// What it looks like.
        head: FileHead,
        /// What is published of it already: see [`Output::Receive`].
        have: Option<FileHead>,
        /// True if its use is to be told by [`Input::Used`].
        is_marked: bool,
    },
    /// A block that is complete in the store, in the file's sparse copy. When all are, the content
    /// is published too.
    Block {
        /// The file.
        path: Path,
        /// The block, counted from zero.
        block: u32,
        /// What the block looks like.
        head: FileHead,
        /// True if its use is to be told by [`Input::Used`].
        is_marked: bool,
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
    Passthrough {
        /// The path.
        path: Path,
        /// Everything below it too.
        tree: bool,
    },
    /// Programs run in the session that do not say what they change: processes are to compare what is
    /// known with the original before they use it.
    Unaudited,
}

/// How much a node keeps of what its processes and its peers cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Requests of processes that wait: at most [`Limits::clients_waiting_max`](crate::Limits).
    pub clients: usize,
    /// Questions under way: at most [`Limits::pending_max`](crate::Limits).
    pub pending: usize,
    /// The most children that wait for one question: at most one for each child and tree.
    pub waiting: usize,
    /// Pieces on their way to one child, the most of all: at most [`Limits::transfers_max`](crate::Limits).
    pub outgoing: usize,
    /// Pieces on their way from one parent, the most of all: as many.
    pub incoming: usize,
    /// Pieces of which nobody sends the rest: at most one for each question.
    pub orphans: usize,
    /// Files to be read, asked for or not any more: at most twice as many as questions, and 64.
    pub reads_waiting: usize,
    /// Paths in the order in which they may be forgotten: at most twice as many as may be known, and 64.
    pub forgettable: usize,
    /// Directories that were listed, in that order: at most as many.
    pub listed: usize,
    /// Versions to be told of one tree, the most of all: at most 65,536.
    pub unreported: usize,
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
    pub forgotten: u64,
    pub changed: u64,
}
