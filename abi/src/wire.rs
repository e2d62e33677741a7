//! Messages between daemons.
//!
//! The transport is Noise, an ordered, authenticated stream of bytes. It carries frames: a length (`u32`,
//! little-endian, at most [`FRAME_BYTES_MAX`]) and a body, which is a postcard-encoded [`Message`]; after
//! [`Message::Chunk`] and [`Message::Content`] the rest of the body is their bytes.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::attr::Attr;
use crate::listing::Listing;
use crate::path::Path;

/// The protocol's version; peers of another are refused.
pub const VERSION: u32 = 9;
/// Headwater's version, for people.
pub const RELEASE: &str = env!("CARGO_PKG_VERSION");
/// The longest name of a release, in bytes.
const RELEASE_BYTES_MAX: usize = 64;
/// The largest body of a frame.
pub const FRAME_BYTES_MAX: usize = 16 << 20;
/// The most bytes of content in one message.
pub const CHUNK_BYTES_MAX: usize = 256 << 10;
/// The most ranges that a file's content is cut into.
pub const RANGES_MAX: usize = 64;
/// The first block of a file that is read by the reader of the tree that it goes down; those before are read by the
/// file's own reader.
pub const STRIPED_BLOCK_MIN: u32 = 16;
/// Bytes of a block, the unit in which large files travel. A file's last block may be shorter.
pub const BLOCK_BYTES: u64 = 1 << 20;
/// The most changes in one [`Message::Refresh`], and the most paths in one
/// [`Message::RefreshWanted`].
pub const CHANGES_MAX: usize = 1024;
/// The most names in one [`Message::Details`].
pub const DETAILS_MAX: usize = 256;
/// The longest name of an [`Endpoint`], in bytes: a greeting is short.
pub const ENDPOINT_NAME_BYTES_MAX: usize = 256;

/// The part of what is known of a path that a message is about.
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

impl Aspect {
    /// Returns the number of the block that it is about.
    pub fn block(self) -> Option<u32> {
        if let Aspect::Block(number) = self { Some(number) } else { None }
    }
}

/// A fact about a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fact {
    /// No such name.
    Absent,
    /// The source returns this error number.
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

impl Fact {
    /// Returns the attributes in it.
    pub fn attr(&self) -> Option<&Attr> {
        match self {
            Fact::Absent | Fact::Error(_) => None,
            Fact::Attr(attr) | Fact::Link(attr, _) | Fact::Listing(attr, _) | Fact::Unlistable(attr) => Some(attr),
        }
    }
}

/// A change on the shared file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The changed path.
    pub path: Path,
    /// True if it is the same directory, with other names or attributes.
    pub is_same_directory: bool,
}

/// The version of a path that was read, as hashes; two different ones were not read of the same thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// The path.
    pub path: Path,
    /// Hash of the fact.
    pub fact: u64,
    /// Hash of its names, if it is a directory and they were read.
    pub names: Option<u64>,
}

/// A fact about one name of a directory.
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
    /// Returns the number of bytes that will be sent.
    pub fn content_bytes(&self) -> u64 {
        self.ranges.iter().map(|r| r.1).sum()
    }

    /// Returns the head of one block of the file; `None` beyond the file's end.
    pub fn block(&self, number: u32) -> Option<FileHead> {
        let range = block_range(self.attr.size, number)?;
        Some(FileHead { attr: self.attr, format: self.format, ranges: Arc::from([range]), whole: false })
    }

    /// Returns whether the ranges ascend, are disjoint, lie in the file and cover it if `whole` is set.
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

    /// Returns the offset in the file of the byte at `position` of the content, and how many follow it in the
    /// same range. `None` at or beyond the end.
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

/// Returns the offset of block `number` of a file of `size` bytes, and its length; `None` beyond the file's
/// end.
pub fn block_range(size: u64, number: u32) -> Option<(u64, u64)> {
    let offset = u64::from(number) * BLOCK_BYTES;
    (offset < size).then(|| (offset, (size - offset).min(BLOCK_BYTES)))
}

/// Returns the number of blocks of a file of `size` bytes; zero if there are more than can be numbered.
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

/// Another transport on which a link can continue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// The sender's number for the link, drawn for it alone.
    pub link: u64,
    /// The name of the sender's endpoint, in its carrier's form; at most [`ENDPOINT_NAME_BYTES_MAX`] bytes.
    pub name: Vec<u8>,
}

/// A message between daemons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// First on every link, both ways. It is the first message, and begins with its two versions, in every version of
    /// the protocol: see [`greeting_versions`].
    Hello {
        /// [`VERSION`].
        version: u32,
        /// [`RELEASE`].
        release: Box<str>,
        /// The session's identity.
        session: u128,
        /// The sender's rank.
        rank: u32,
        /// The fingerprint of the sender's forest, which must be the same on all nodes.
        forest: u64,
        /// True from the rank that will send requests, false from the one that answers.
        is_child: bool,
        /// The endpoint on which the link can continue; the answer has one only if the greeting had.
        endpoint: Option<Endpoint>,
    },
    /// Child to parent: the receiver is the sender's parent in these trees, and in no others.
    Join {
        /// The numbers of trees, ascending, at most [`TREES_MAX`].
        trees: Vec<u32>,
        /// Whether messages for all nodes travel over this link.
        is_control: bool,
        /// Whether the sender reads the shared file system, and the receiver has to ask it for changes.
        is_reader: bool,
    },
    /// Child to parent: a request. Content starts at `position` of its byte ranges.
    Want {
        /// The tree of the request.
        tree: u32,
        /// The path.
        path: Path,
        /// The requested aspect.
        aspect: Aspect,
        /// Bytes of the content that the sender already has.
        position: u64,
        /// True if the receiver is to send only what it has stored: a reader has evicted it.
        only_stored: bool,
    },
    /// Child to parent: send no more of this content.
    Cancel {
        /// The transfer.
        transfer: TransferId,
    },
    /// Parent to child: a fact, requested or pushed.
    Known {
        /// The path.
        path: Path,
        /// The fact.
        fact: Fact,
    },
    /// Parent to child: all of this content, which is short; its bytes, in the order of its ranges, follow
    /// the message.
    Content {
        /// The path.
        path: Path,
        /// [`Aspect::Loadable`] or [`Aspect::Whole`].
        aspect: Aspect,
        /// Its head.
        head: FileHead,
        /// The digest of the bytes.
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
        /// Its head.
        head: FileHead,
        /// Position of the first chunk in the content.
        position: u64,
    },
    /// Parent to child: bytes of a file, in order.
    Chunk {
        /// The transfer.
        transfer: TransferId,
        /// Position of the bytes in the content.
        position: u64,
        /// Number of bytes.
        bytes: u32,
    },
    /// Parent to child: all chunks have been sent.
    End {
        /// The transfer.
        transfer: TransferId,
        /// The digest of the content.
        digest: Digest,
    },
    /// Parent to child: what was sent of this was wrong. It has to be requested again, from its beginning.
    Again {
        /// The transfer.
        transfer: TransferId,
    },
    /// Parent to child: this content has to be requested block by block; the blocks are those that its ranges
    /// touch.
    Large {
        /// The path.
        path: Path,
        /// [`Aspect::Loadable`] or [`Aspect::Whole`].
        aspect: Aspect,
        /// Its head.
        head: FileHead,
    },
    /// Parent to child: the file can't be sent to its end (the reader failed halfway).
    Failed {
        /// The transfer.
        transfer: TransferId,
        /// The reader's error number.
        errno: u16,
    },
    /// Parent to child: no rank above can answer; use the source file.
    Unavailable {
        /// The path.
        path: Path,
        /// The requested aspect.
        aspect: Aspect,
    },
    /// Both ways, to all nodes: the job changes this path.
    Passthrough {
        /// The path.
        path: Path,
        /// Everything below it too.
        tree: bool,
    },
    /// Shows that the sender is alive.
    Alive,
    /// Both ways: answer with [`Message::Alive`].
    Probe,
    /// Parent to child: facts about names of this directory, in one of several messages.
    Details {
        /// The directory.
        path: Path,
        /// At most [`DETAILS_MAX`] names, in any order.
        details: Arc<[Detail]>,
        /// True in the last message. Names that were missing in all could not be examined.
        is_last: bool,
    },
    /// Child to parent: the sender has reached this generation, which the receiver may have missed.
    Newer {
        /// Its number.
        generation: u64,
    },
    /// Child to parent, and further on to the reader: versions of what a rank without a parent in this tree
    /// has read, or a reader that was lost since.
    Read {
        /// The tree.
        tree: u32,
        /// At most [`CHANGES_MAX`].
        versions: Vec<Version>,
    },
    /// Parent to child: check what this rank has read for changes; answer with [`Message::FoundChanges`].
    CheckChanges {
        /// The sender's number for the check.
        number: u64,
        /// At and below these paths; if there are none, everywhere. At most [`CHANGES_MAX`].
        paths: Vec<Path>,
    },
    /// Child to parent: the changes found.
    FoundChanges {
        /// As in [`Message::CheckChanges`].
        number: u64,
        /// At most [`CHANGES_MAX`]; `None`: anything may have changed.
        changes: Option<Vec<Change>>,
        /// True if no more changes follow.
        is_last: bool,
    },
    /// Child to parent: check the shared file system for changes, and begin a generation.
    RefreshWanted {
        /// The rank whose user requests it.
        rank: u32,
        /// That rank's number for the request.
        request: u64,
        /// Check at and below these paths; if there are none, everywhere.
        paths: Vec<Path>,
    },
    /// Parent to child: behind the last of these, everything is of this generation. What has not changed
    /// stays known. If nothing has changed, the generation is the current one.
    Refresh {
        /// Its number; generations ascend.
        generation: u64,
        /// At most [`CHANGES_MAX`] changes; `None`: anything may have changed.
        changes: Option<Vec<Change>>,
        /// True if no more changes follow.
        is_last: bool,
        /// The requests that this answers: ranks and their numbers.
        requesters: Vec<(u32, u64)>,
    },
    /// Both ways, to all nodes: programs run that don't announce their changes.
    Unaudited,
    /// Both ways: answer when you, and all nodes beyond you, know what was announced on this link before.
    Confirm {
        /// The number to answer with.
        number: u32,
    },
    /// Both ways: the answer to [`Message::Confirm`].
    Confirmed {
        /// The number of the question.
        number: u32,
    },
    /// Both ways, to all nodes: compare the file system of this file with the trees now, all at once.
    Compare {
        /// The file.
        path: Path,
        /// Its attributes.
        attr: Attr,
    },
}

/// Why a frame is refused; the link is then closed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum WireError {
    /// The body is no message of this version.
    #[error("not a message of this version")]
    Malformed,
    /// The number of bytes of content is wrong, or bytes follow another message.
    #[error("a message's length and its bytes disagree")]
    Length,
    /// A number exceeds its limit.
    #[error("a message is beyond its bounds")]
    Bounds,
}

impl Message {
    /// Returns the frame's body; the caller appends [`Message::content_bytes`] bytes.
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

    /// Returns how many bytes of content follow the message.
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
            Message::Hello { release, endpoint, .. } => {
                let name_bytes = endpoint.as_ref().map_or(0, |endpoint| endpoint.name.len());
                release.len() <= RELEASE_BYTES_MAX && name_bytes <= ENDPOINT_NAME_BYTES_MAX
            }
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

/// Returns the versions of the protocol and of Headwater of a peer whose greeting has this body, whatever follows them;
/// `None` if it is no greeting.
pub fn greeting_versions(body: &[u8]) -> Option<(u32, &str)> {
    /// The number of [`Message::Hello`].
    const HELLO: u32 = 0;
    let (number, version, release) = postcard::take_from_bytes::<(u32, u32, &str)>(body).ok()?.0;
    (number == HELLO && release.len() <= RELEASE_BYTES_MAX).then_some((version, release))
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
    fn greetings_of_any_version_tell_it() {
        let hello = Message::Hello {
            version: 300,
            release: "2.0.1".into(),
            session: 1,
            rank: 2,
            forest: 3,
            is_child: true,
            endpoint: None,
        };
        let body = hello.encode();
        assert_eq!(greeting_versions(&body), Some((300, "2.0.1")));
        assert_eq!(greeting_versions(&body[..9]), Some((300, "2.0.1")), "what follows may be of any form");
        assert_eq!(greeting_versions(&body[..8]), None);
        assert_eq!(greeting_versions(&Message::Alive.encode()), None);
        let long = postcard::to_allocvec(&(0u32, 7u32, "x".repeat(RELEASE_BYTES_MAX + 1))).unwrap();
        assert_eq!(greeting_versions(&long), None);
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
            let _ = greeting_versions(&bytes);
        }
    }
}
