//! Messages between daemons.
//!
//! Below them lies a Noise transport, which gives an ordered, authenticated stream of bytes. On it
//! stand frames: a length (`u32`, little-endian, at most [`FRAME_BYTES_MAX`]) and a body, which is a
//! postcard-encoded [`Message`]; after [`Message::Chunk`] and [`Message::Content`] the rest of the body is
//! their bytes.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::attr::Attr;
use crate::listing::Listing;
use crate::path::Path;

/// The protocol's version; peers of another are refused.
pub const VERSION: u32 = 6;
/// The largest body of a frame.
pub const FRAME_BYTES_MAX: usize = 16 << 20;
/// The most bytes of content in one message.
pub const CHUNK_BYTES_MAX: usize = 256 << 10;
/// The most ranges that a file's content is cut into.
pub const RANGES_MAX: usize = 64;
/// Bytes of a block: what large files travel in. A file's last block may be shorter.
pub const BLOCK_BYTES: u64 = 1 << 20;
/// The most changes in one [`Message::Refresh`], and the most paths in one
/// [`Message::RefreshWanted`].
pub const CHANGES_MAX: usize = 1024;
/// The most names in one [`Message::Details`].
pub const DETAILS_MAX: usize = 256;
/// The longest name of an [`Endpoint`], in bytes: a greeting is short.
pub const ENDPOINT_NAME_BYTES_MAX: usize = 256;

/// What part of a path's knowledge a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Aspect {
    /// What the path is: absent, an error, attributes, a link's target.
    Entry,
    /// A directory's names (with its attributes).
    Listing,
    /// The bytes that a loader maps.
    Loadable,
    /// All bytes.
    Whole,
    /// What each name of a directory is.
    Details,
    /// The bytes of the block with this number, counted from zero.
    Block(u32),
}

/// A fact about a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fact {
    /// No such name.
    Absent,
    /// The original answers with this error number.
    Error(u16),
    /// A file, device, or directory by its attributes alone.
    Attr(Attr),
    /// A symbolic link.
    Link(Attr, Box<[u8]>),
    /// A directory with all its names.
    Listing(Attr, Listing),
    /// A directory that can be searched but not listed.
    Unlistable(Attr),
}

/// Something on the shared file system is not as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Where.
    pub path: Path,
    /// It is the directory that it was, with other names or attributes.
    pub is_same_directory: bool,
}

/// What was read of a path, as hashes: two that differ were not read of the same thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// The path.
    pub path: Path,
    /// Of what it is.
    pub fact: u64,
    /// Of its names, if it is a directory and they were read.
    pub names: Option<u64>,
}

/// What one name of a directory is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detail {
    /// The name.
    pub name: Box<[u8]>,
    /// Attributes or a link; never a listing.
    pub fact: Fact,
}

/// A file's content as it will be sent: attributes, format, and which bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileHead {
    /// The file's attributes at the time it was opened.
    pub attr: Attr,
    /// Format bits: the `NATIVE_OBJECT`, `EXECUTABLE` and `SCRIPT` bits of
    /// [`table::State`](crate::table::State).
    pub format: u64,
    /// The bytes that will be sent, ascending and disjoint: (offset, length).
    pub ranges: Arc<[(u64, u64)]>,
    /// True if the ranges are all the bytes there are.
    pub whole: bool,
}

impl FileHead {
    /// Bytes that will be sent.
    pub fn content_bytes(&self) -> u64 {
        self.ranges.iter().map(|r| r.1).sum()
    }

    /// The head of one block of the file that this describes; `None` beyond the file's end.
    pub fn block(&self, number: u32) -> Option<FileHead> {
        let range = block_range(self.attr.size, number)?;
        Some(FileHead { attr: self.attr, format: self.format, ranges: Arc::from([range]), whole: false })
    }

    /// Whether the ranges ascend, are disjoint, lie in the file and cover it if they say so.
    pub fn is_valid(&self) -> bool {
        let mut end = 0;
        self.ranges.len() <= RANGES_MAX
            && self.ranges.iter().all(|&(offset, bytes)| {
                let follows = offset >= end && bytes > 0;
                end = offset.saturating_add(bytes);
                follows && end <= self.attr.size
            })
            && (!self.whole || self.content_bytes() == self.attr.size)
    }

    /// Where the byte at `position` of the content stands in the file, and how many follow it in
    /// the same range. `None` at or beyond the end.
    pub fn locate(&self, position: u64) -> Option<(u64, u64)> {
        let mut before = 0;
        for &(offset, bytes) in self.ranges.iter() {
            if position < before + bytes {
                let into = position - before;
                return Some((offset + into, bytes - into));
            }
            before += bytes;
        }
        None
    }
}

/// Where block `number` of a file of `size` bytes begins, and how many bytes it has; `None` beyond
/// the file's end.
pub fn block_range(size: u64, number: u32) -> Option<(u64, u64)> {
    let offset = u64::from(number) * BLOCK_BYTES;
    (offset < size).then(|| (offset, (size - offset).min(BLOCK_BYTES)))
}

/// How many blocks a file of `size` bytes has; more than are numbered are none.
pub fn block_count(size: u64) -> u32 {
    u32::try_from(size.div_ceil(BLOCK_BYTES)).unwrap_or(0)
}

/// A sender's number for a file that it is sending; on a link the numbers ascend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TransferId(pub u64);

/// The most trees in one [`Message::Join`].
pub const TREES_MAX: usize = 4096;

/// BLAKE3 of content, in the order of its head's ranges.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

impl core::fmt::Debug for Digest {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "Digest({a:02x}{b:02x}{c:02x}{d:02x}…)")
    }
}

/// Where a link can go on, beside the connection on which this is said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// The sender's number for the link, drawn for it alone.
    pub link: u64,
    /// The name of the sender's endpoint, as its carrier has it; at most [`ENDPOINT_NAME_BYTES_MAX`] bytes.
    pub name: Vec<u8>,
}

/// What daemons say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// First on every link, both ways.
    Hello {
        /// [`VERSION`].
        version: u32,
        /// The session's identity.
        session: u128,
        /// The sender's rank.
        rank: u32,
        /// The fingerprint of the sender's forest: who is whose parent must be the same for all.
        forest: u64,
        /// True from who will ask, false from who answers.
        is_child: bool,
        /// Where the link can go on; the answer names a place only if the question did.
        endpoint: Option<Endpoint>,
    },
    /// Child to parent: in these trees, and in no others, the sender has the receiver for a parent.
    Join {
        /// The numbers of trees, ascending, at most [`TREES_MAX`].
        trees: Vec<u32>,
        /// Whether what everybody has to know goes this way.
        is_control: bool,
        /// Whether the sender reads the shared file system, and is to be asked for changes by the receiver.
        is_reader: bool,
    },
    /// Child to parent: send this to me. Content starts at `position` of its byte ranges.
    Want {
        /// In which tree it is asked for.
        tree: u32,
        /// The path.
        path: Path,
        /// Which knowledge of it.
        aspect: Aspect,
        /// Bytes of the content that the asker already has.
        position: u64,
        /// True if nobody else is to be asked for it: a reader has lost it, and looks for it below.
        only_stored: bool,
    },
    /// Child to parent: no more of this content.
    Cancel {
        /// The transfer.
        transfer: TransferId,
    },
    /// Parent to child: a fact, asked for or pushed.
    Known {
        /// The path.
        path: Path,
        /// The fact.
        fact: Fact,
    },
    /// Parent to child: all of this content, which is short; its bytes, in the order of its ranges, are behind
    /// the message.
    Content {
        /// The path.
        path: Path,
        /// [`Aspect::Loadable`] or [`Aspect::Whole`].
        aspect: Aspect,
        /// What it looks like.
        head: FileHead,
        /// What the bytes are to be checked against.
        digest: Digest,
    },
    /// Parent to child: the chunks of this file follow.
    File {
        /// The sender's number for it.
        transfer: TransferId,
        /// The path.
        path: Path,
        /// [`Aspect::Loadable`], [`Aspect::Whole`] or [`Aspect::Block`].
        aspect: Aspect,
        /// What it looks like.
        head: FileHead,
        /// Where in the content the first chunk starts.
        position: u64,
    },
    /// Parent to child: bytes of a file, in order.
    Chunk {
        /// The transfer.
        transfer: TransferId,
        /// Where in the content they stand.
        position: u64,
        /// How many they are.
        bytes: u32,
    },
    /// Parent to child: all chunks have been sent.
    End {
        /// The transfer.
        transfer: TransferId,
        /// What the content is to be checked against.
        digest: Digest,
    },
    /// Parent to child: what was sent of this was wrong. It is to be asked for anew, from its beginning.
    Again {
        /// The transfer.
        transfer: TransferId,
    },
    /// Parent to child: this content is to be asked for block by block, those that its ranges touch.
    Large {
        /// The path.
        path: Path,
        /// [`Aspect::Loadable`] or [`Aspect::Whole`].
        aspect: Aspect,
        /// What it looks like.
        head: FileHead,
    },
    /// Parent to child: the file can't be sent to its end (the reader failed halfway).
    Failed {
        /// The transfer.
        transfer: TransferId,
        /// The reader's error number.
        errno: u16,
    },
    /// Parent to child: nobody above can answer; use the original.
    Unavailable {
        /// The path.
        path: Path,
        /// Which knowledge of it.
        aspect: Aspect,
    },
    /// Both ways, to everybody: the job changes this path.
    Passthrough {
        /// The path.
        path: Path,
        /// Everything below it too.
        tree: bool,
    },
    /// Nothing: the sender lives.
    Alive,
    /// Both ways: answer with [`Message::Alive`].
    Probe,
    /// Parent to child: what names of this directory are, in one of several messages.
    Details {
        /// The directory.
        path: Path,
        /// At most [`DETAILS_MAX`] names, in any order.
        details: Arc<[Detail]>,
        /// True if nothing more comes. Names that were never told could not be examined.
        is_last: bool,
    },
    /// Child to parent: the sender has come to this generation, which the receiver may have missed.
    Newer {
        /// Its number.
        generation: u64,
    },
    /// Child to parent, and further on to the reader: what was read of the shared file system, by a rank
    /// that had nobody to ask in this tree, or by a reader that was lost since.
    Read {
        /// The tree.
        tree: u32,
        /// At most [`CHANGES_MAX`].
        versions: Vec<Version>,
    },
    /// Parent to child: look for changes at what this rank has read; answer with [`Message::FoundChanges`].
    CheckChanges {
        /// The sender's number for it.
        number: u64,
        /// At and below these paths; if there are none, everywhere. At most [`CHANGES_MAX`].
        paths: Vec<Path>,
    },
    /// Child to parent: what has changed.
    FoundChanges {
        /// As in [`Message::CheckChanges`].
        number: u64,
        /// At most [`CHANGES_MAX`]; `None`: anything may have changed.
        changes: Option<Vec<Change>>,
        /// True if no more changes follow.
        is_last: bool,
    },
    /// Child to parent: look for changes on the shared file system, and begin a generation.
    RefreshWanted {
        /// The rank whose user wants it.
        rank: u32,
        /// That rank's number for it.
        request: u64,
        /// Look at and below these paths; if there are none, everywhere.
        paths: Vec<Path>,
    },
    /// Parent to child: behind the last of these, all is of this generation. What has not changed
    /// stays as it is known. If nothing has, the generation is the one that there was.
    Refresh {
        /// Its number; generations ascend.
        generation: u64,
        /// At most [`CHANGES_MAX`] changes; `None`: anything may have changed.
        changes: Option<Vec<Change>>,
        /// True if no more changes follow.
        is_last: bool,
        /// Whom this answers: ranks and their numbers.
        requesters: Vec<(u32, u64)>,
    },
    /// Both ways, to everybody: programs run that do not say what they change.
    Unaudited,
}

/// Why a frame is refused; the link is then closed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum WireError {
    /// The body is no message of this version.
    #[error("not a message of this version")]
    Malformed,
    /// The bytes of content are not as many as is said, or something follows another message.
    #[error("a message's length and its bytes disagree")]
    Length,
    /// A number is beyond its bound.
    #[error("a message is beyond its bounds")]
    Bounds,
}

impl Message {
    /// The frame's body; [`Message::content_bytes`] are to be appended by the caller.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("a message is always encodable")
    }

    /// Decodes a frame's body into a message and the bytes of content behind it.
    pub fn decode(body: &[u8]) -> Result<(Message, &[u8]), WireError> {
        let (message, rest): (Message, &[u8]) = postcard::take_from_bytes(body).map_err(|_| WireError::Malformed)?;
        if !message.is_within_bounds() {
            return Err(WireError::Bounds);
        }
        if rest.len() as u64 == message.content_bytes() { Ok((message, rest)) } else { Err(WireError::Length) }
    }

    /// How many bytes of content stand behind the message.
    pub fn content_bytes(&self) -> u64 {
        match self {
            Message::Chunk { bytes, .. } => u64::from(*bytes),
            Message::Content { head, .. } => head.content_bytes(),
            _ => 0,
        }
    }

    fn is_within_bounds(&self) -> bool {
        match self {
            Message::Chunk { bytes, .. } => (1..=CHUNK_BYTES_MAX).contains(&(*bytes as usize)),
            Message::Content { aspect, head, .. } => {
                let is_in_one_piece = matches!(aspect, Aspect::Loadable | Aspect::Whole);
                is_in_one_piece && head.is_valid() && head.content_bytes() <= CHUNK_BYTES_MAX as u64
            }
            Message::Hello { endpoint: Some(endpoint), .. } => endpoint.name.len() <= ENDPOINT_NAME_BYTES_MAX,
            Message::Join { trees, .. } => trees.len() <= TREES_MAX,
            Message::Large { head, .. } => head.is_valid(),
            Message::File { head, position, .. } => head.is_valid() && *position <= head.content_bytes(),
            Message::Details { details, .. } => details.len() <= DETAILS_MAX,
            Message::RefreshWanted { paths, .. } | Message::CheckChanges { paths, .. } => paths.len() <= CHANGES_MAX,
            Message::Read { versions, .. } => versions.len() <= CHANGES_MAX,
            Message::FoundChanges { changes, .. } | Message::Refresh { changes, .. } => {
                changes.as_ref().is_none_or(|changes| changes.len() <= CHANGES_MAX)
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn head(size: u64, ranges: &[(u64, u64)], whole: bool) -> FileHead {
        FileHead { attr: Attr { size, ..Attr::default() }, format: 0, ranges: Arc::from(ranges), whole }
    }

    #[test]
    fn chunks_carry_their_bytes() {
        let message = Message::Chunk { transfer: TransferId(7), position: 4096, bytes: 3 };
        let mut body = message.encode();
        assert_eq!(Message::decode(&body), Err(WireError::Length));
        body.extend_from_slice(b"abc");
        assert_eq!(Message::decode(&body), Ok((message, &b"abc"[..])));
        body.push(0);
        assert_eq!(Message::decode(&body), Err(WireError::Length));
    }

    #[test]
    fn content_carries_its_bytes() {
        let content = |aspect, head| Message::Content { path: Path::root(), aspect, head, digest: Digest([7; 32]) };
        let decoded = |message: &Message, content: &[u8]| {
            let body = [message.encode(), content.to_vec()].concat();
            Message::decode(&body).map(|(decoded, rest)| (decoded == *message, rest.len()))
        };
        let two = content(Aspect::Loadable, head(10, &[(0, 2), (6, 4)], false));
        assert_eq!(decoded(&two, b"abcdef"), Ok((true, 6)));
        assert_eq!(decoded(&two, b"abcde"), Err(WireError::Length));
        assert_eq!(decoded(&content(Aspect::Whole, head(0, &[], true)), b""), Ok((true, 0)));
        let most = CHUNK_BYTES_MAX as u64;
        let [at_most, more] = [most, most + 1].map(|bytes| content(Aspect::Whole, head(bytes, &[(0, bytes)], true)));
        assert_eq!(decoded(&at_most, &vec![0; CHUNK_BYTES_MAX]), Ok((true, CHUNK_BYTES_MAX)));
        assert_eq!(decoded(&more, &vec![0; CHUNK_BYTES_MAX + 1]), Err(WireError::Bounds));
        let block = content(Aspect::Block(0), head(10, &[(0, 10)], false));
        assert_eq!(decoded(&block, &[0; 10]), Err(WireError::Bounds));
    }

    #[test]
    fn heads_are_checked_and_located() {
        assert!(head(10, &[(0, 4), (6, 4)], false).is_valid());
        assert!(!head(10, &[(0, 4), (3, 4)], false).is_valid());
        assert!(!head(10, &[(8, 4)], false).is_valid());
        assert!(!head(10, &[(u64::MAX, 4)], false).is_valid());
        assert!(!head(10, &[(0, 4)], true).is_valid());
        assert!(head(0, &[], true).is_valid());
        let head = head(10, &[(0, 4), (6, 4)], false);
        assert_eq!(head.locate(3), Some((3, 1)));
        assert_eq!(head.locate(4), Some((6, 4)));
        assert_eq!(head.locate(8), None);
    }

    #[test]
    fn blocks_cover_a_file() {
        for (size, blocks) in [(0, 0), (1, 1), (BLOCK_BYTES, 1), (BLOCK_BYTES + 1, 2), (BLOCK_BYTES * 7 - 1, 7)] {
            assert_eq!(block_count(size), blocks);
            let all = head(size, &[], false);
            let ranges: Vec<(u64, u64)> = (0..blocks).map(|n| all.block(n).unwrap().ranges[0]).collect();
            assert_eq!(ranges.iter().map(|r| r.1).sum::<u64>(), size);
            assert!(ranges.iter().enumerate().all(|(n, r)| r.0 == n as u64 * BLOCK_BYTES));
            assert!((0..blocks).all(|n| all.block(n).unwrap().is_valid()) && all.block(blocks).is_none());
        }
        assert_eq!(block_count(u64::MAX), 0);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            let _ = Message::decode(&bytes);
        }
    }
}
