//! The records after a handshake: encrypted by Noise, or readable with a tag.
//!
//! A record is a length (`u16`, big-endian, as the Noise specification advises in section 13) and as many bytes, of
//! which the last 16 are the tag. The tag of a readable record is BLAKE3 (keyed, the first 16 bytes) of its content,
//! its number in its direction, and its length, both big-endian. The two directions have different keys. They are
//! derived from those that would encrypt, which are then used for nothing else.

use snow::error::StateProblem;
use snow::{HandshakeState, TransportState};
use thiserror::Error;
use zeroize::Zeroize;

use crate::buffer::Buffer;
use crate::session::LinkProtection;

/// Bytes of a record's length.
pub(crate) const LENGTH_BYTES: usize = 2;
/// The most bytes of a record after its length.
pub(crate) const RECORD_BYTES_MAX: usize = u16::MAX as usize;
/// What either protection adds to a record.
pub(crate) const TAG_BYTES: usize = 16;
/// The most content of a record that is encrypted.
pub(crate) const ENCRYPTED_BYTES_MAX: usize = RECORD_BYTES_MAX - TAG_BYTES;
/// The most content that is sent in one readable record. BLAKE3 hashes up to 16 KiB at once, and incomplete 16 KiB
/// slowly.
pub(crate) const READABLE_BYTES_MAX: usize = 48 << 10;
/// The purposes of the derived keys.
const FROM_INITIATOR: &str = "headwater 2026-11-27 tags of a link's records, from the initiator to the responder";
const FROM_RESPONDER: &str = "headwater 2026-11-27 tags of a link's records, from the responder to the initiator";

/// A record is not what the other end sent next, or no record can follow.
#[derive(Debug, Error)]
#[error("a record was altered")]
pub(crate) struct Altered;

/// Both directions of a stream of records.
pub(crate) enum Records {
    /// Records are encrypted.
    Encrypted(Box<TransportState>),
    /// Records are readable.
    Readable { sending: Direction, receiving: Direction },
}

/// The tags of one direction.
pub(crate) struct Direction {
    key: [u8; blake3::KEY_LEN],
    /// The number of the next record.
    number: u64,
}

impl Records {
    /// Creates the records that follow a complete handshake.
    pub(crate) fn new(mut state: HandshakeState, protection: LinkProtection) -> Result<Records, snow::Error> {
        if protection == LinkProtection::Encrypt {
            return Ok(Records::Encrypted(Box::new(state.into_transport_mode()?)));
        }
        if !state.is_handshake_finished() {
            return Err(StateProblem::HandshakeNotFinished.into());
        }
        let (mut first, mut second) = state.dangerously_get_raw_split();
        let [sending, receiving] = match state.is_initiator() {
            true => [Direction::new(FROM_INITIATOR, &first), Direction::new(FROM_RESPONDER, &second)],
            false => [Direction::new(FROM_RESPONDER, &second), Direction::new(FROM_INITIATOR, &first)],
        };
        first.zeroize();
        second.zeroize();
        Ok(Records::Readable { sending, receiving })
    }

    /// Checks the record after its length, and appends its content to `plain`.
    pub(crate) fn receive(&mut self, record: &[u8], plain: &mut Buffer) -> Result<(), Altered> {
        match self {
            Records::Encrypted(state) => {
                let room = plain.room(record.len());
                let bytes = state.read_message(record, room).map_err(|_| Altered)?;
                plain.filled(bytes);
            }
            Records::Readable { receiving, .. } => {
                let (content, tag) = record.split_last_chunk().ok_or(Altered)?;
                // This comparison takes the same time whatever differs.
                if receiving.tag(content)? != padded(tag) {
                    return Err(Altered);
                }
                plain.put(content);
            }
        }
        Ok(())
    }

    /// Appends `plain` to `out` as records.
    pub(crate) fn send(&mut self, plain: &[u8], out: &mut Buffer) -> Result<(), Altered> {
        let bytes_max = match self {
            Records::Encrypted(_) => ENCRYPTED_BYTES_MAX,
            Records::Readable { .. } => READABLE_BYTES_MAX,
        };
        for content in plain.chunks(bytes_max) {
            out.put(&record_length(content));
            match self {
                Records::Encrypted(state) => {
                    let room = out.room(content.len() + TAG_BYTES);
                    let bytes = state.write_message(content, room).map_err(|_| Altered)?;
                    out.filled(bytes);
                }
                Records::Readable { sending, .. } => {
                    let tag = sending.tag(content)?;
                    out.put(content);
                    out.put(&tag.as_bytes()[..TAG_BYTES]);
                }
            }
        }
        Ok(())
    }
}

impl Direction {
    fn new(purpose: &str, secret: &[u8]) -> Direction {
        Direction { key: blake3::derive_key(purpose, secret), number: 0 }
    }

    /// Returns the tag of the next record, followed by zeros.
    fn tag(&mut self, content: &[u8]) -> Result<blake3::Hash, Altered> {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        // The content comes first: BLAKE3 is faster if it begins with whole KiB.
        hasher.update(content).update(&self.number.to_be_bytes()).update(&record_length(content));
        self.number = self.number.checked_add(1).ok_or(Altered)?;
        let tag = hasher.finalize().as_bytes().first_chunk().copied();
        Ok(padded(&tag.unwrap_or_default()))
    }
}

impl Drop for Direction {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

/// Returns a record's length as it is sent.
fn record_length(content: &[u8]) -> [u8; LENGTH_BYTES] {
    ((content.len() + TAG_BYTES) as u16).to_be_bytes()
}

/// Returns a tag as a hash.
fn padded(tag: &[u8; TAG_BYTES]) -> blake3::Hash {
    let mut bytes = [0; blake3::OUT_LEN];
    bytes[..TAG_BYTES].copy_from_slice(tag);
    blake3::Hash::from_bytes(bytes)
}
