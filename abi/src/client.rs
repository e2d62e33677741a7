//! The client socket: a Unix stream socket on which a process requests one path and waits.
//!
//! One request a connection. The daemon answers [`Status::Pending`] every [`PENDING_INTERVAL_MS`] while it
//! works and then, once, a final status. A client that receives nothing for [`SILENCE_MS_MAX`] uses the
//! source file and sends no request for a while.

use alloc::vec::Vec;

use bitflags::bitflags;

use crate::path::{PATH_BYTES_MAX, Path};

/// First word of a request: `HWRQ` and the version, so that another version is refused cleanly.
pub const REQUEST_MAGIC: u32 = u32::from_le_bytes(*b"HWQ1");
/// First word of a reply.
pub const REPLY_MAGIC: u32 = u32::from_le_bytes(*b"HWR1");
/// Bytes of a request before its path.
pub const REQUEST_BYTES: usize = 24;
/// Bytes of a reply.
pub const REPLY_BYTES: usize = 12;
/// How often a waiting client receives [`Status::Pending`], in milliseconds.
pub const PENDING_INTERVAL_MS: u64 = 1000;
/// How long a client waits for the next reply, in milliseconds.
pub const SILENCE_MS_MAX: u64 = 5000;

bitflags! {
    /// What a process needs of a path.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
    pub struct Want: u32 {
        /// The attributes; for a link also its target.
        const ATTR = 1;
        /// A directory's names.
        const LISTING = 2;
        /// The bytes that a loader maps.
        const LOADABLE = 4;
        /// All bytes.
        const WHOLE = 8;
        /// All bytes, to execute them.
        const EXECUTE = 16;
        /// Nothing: the process is about to change the path.
        const PASSTHROUGH = 32;
        /// With `PASSTHROUGH`: and everything below it (a directory is renamed or removed).
        const TREE = 64;
        /// The last component is not followed if it is a link.
        const NO_FOLLOW = 128;
        /// With `LISTING`: the details too, if the job is likely to examine each name.
        const DETAILS = 256;
        /// Nothing: a program is about to run that doesn't announce its changes. The path has no meaning.
        const UNAUDITED = 512;
    }
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// In progress.
    Pending = 0,
    /// The table has what is known: look the path up again.
    Done = 1,
    /// Use the source file.
    Fallback = 2,
}

/// A request as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What the process needs.
    pub want: Want,
    /// The generation of the table that the client reads.
    pub generation: u64,
    /// The path.
    pub path: Path,
}

/// The result of decoding the bytes received so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// More bytes are needed.
    Incomplete,
    /// A whole request.
    Request(Request),
    /// Not a request of this version.
    Invalid,
}

impl Request {
    /// Returns the bytes to send.
    pub fn encode(&self) -> Vec<u8> {
        let path = self.path.as_bytes();
        let mut bytes = Vec::with_capacity(REQUEST_BYTES + path.len());
        bytes.extend_from_slice(&REQUEST_MAGIC.to_le_bytes());
        bytes.extend_from_slice(&self.want.bits().to_le_bytes());
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        bytes.extend_from_slice(&(path.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&0u32.to_le_bytes());
        bytes.extend_from_slice(path);
        bytes
    }

    /// Decodes what has been received.
    pub fn decode(bytes: &[u8]) -> Decoded {
        let word = |at: usize| bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
        match word(0) {
            None => return Decoded::Incomplete,
            Some(REQUEST_MAGIC) => {}
            Some(_) => return Decoded::Invalid,
        }
        let (Some(want), Some(low), Some(high), Some(path_bytes), Some(_)) =
            (word(4), word(8), word(12), word(16), word(20))
        else {
            return Decoded::Incomplete;
        };
        let path_bytes = path_bytes as usize;
        if path_bytes > PATH_BYTES_MAX || bytes.len() > REQUEST_BYTES + path_bytes {
            return Decoded::Invalid;
        }
        if bytes.len() < REQUEST_BYTES + path_bytes {
            return Decoded::Incomplete;
        }
        match (Want::from_bits(want), Path::new(&bytes[REQUEST_BYTES..])) {
            (Some(want), Some(path)) => {
                Decoded::Request(Request { want, generation: u64::from(low) | u64::from(high) << 32, path })
            }
            _ => Decoded::Invalid,
        }
    }
}

/// Returns the bytes of a reply: magic, status, a reserved word.
pub fn encode_reply(status: Status) -> [u8; REPLY_BYTES] {
    let mut bytes = [0; REPLY_BYTES];
    bytes[..4].copy_from_slice(&REPLY_MAGIC.to_le_bytes());
    bytes[4..8].copy_from_slice(&(status as u32).to_le_bytes());
    bytes
}

/// Returns the status in a reply; `None` if it is not one of this version.
pub fn decode_reply(bytes: &[u8; REPLY_BYTES]) -> Option<Status> {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    match (word(0), word(4)) {
        (REPLY_MAGIC, 0) => Some(Status::Pending),
        (REPLY_MAGIC, 1) => Some(Status::Done),
        (REPLY_MAGIC, 2) => Some(Status::Fallback),
        _ => None,
    }
}

/// Counters that clients write for the daemon: [`COUNTER_SLOTS`] cache lines in a shared file, one chosen by
/// process ID, each with the words below.
pub const COUNTER_SLOTS: usize = 256;
/// Words of a counter slot.
pub const COUNTER_WORDS: usize = 8;

/// Word numbers in a counter slot.
#[allow(missing_docs)]
pub mod counter {
    /// Paths looked up.
    pub const LOOKUPS: usize = 0;
    /// Look-ups that the table answered at once.
    pub const ANSWERED: usize = 1;
    /// Requests sent to the daemon.
    pub const REQUESTS: usize = 2;
    /// Paths in the scope for which the source file was used although the process only read.
    pub const FALLBACKS: usize = 3;
    /// Processes that attached to the table.
    pub const PROCESSES: usize = 4;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_round_trip_in_pieces() {
        let request = Request {
            want: Want::LOADABLE | Want::NO_FOLLOW,
            generation: 1 << 40,
            path: Path::new(b"/lustre/sw/lib/libx.so").unwrap(),
        };
        let bytes = request.encode();
        for end in 0..bytes.len() {
            assert_eq!(Request::decode(&bytes[..end]), Decoded::Incomplete);
        }
        assert_eq!(Request::decode(&bytes), Decoded::Request(request));
    }

    #[test]
    fn replies_round_trip() {
        for status in [Status::Pending, Status::Done, Status::Fallback] {
            assert_eq!(decode_reply(&encode_reply(status)), Some(status));
        }
        assert_eq!(decode_reply(&[0; REPLY_BYTES]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            let _ = Request::decode(&bytes);
        }
    }
}
