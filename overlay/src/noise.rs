//! The encrypted stream below a link: `Noise_NNpsk0` with the session's key, then records.
//!
//! A record is a length (`u16`, big-endian, as the Noise specification advises in section 13) and as
//! many bytes of ciphertext. Two handshake records, one each way, settle the keys of this connection.
//! The session's identity is the prologue, so peers of another session fail in the handshake. Those of another version
//! of the protocol fail in the greeting, which carries the version.
//!
//! The answer proves to the initiator that the responder knows the key. To the responder, only the first record after
//! the handshake is proof: all before may be a replay.

use snow::params::NoiseParams;
use snow::{Builder, HandshakeState, TransportState};
use thiserror::Error;

use crate::buffer::Buffer;
use crate::session::{SessionId, SessionKey};

/// The accepted patterns, by cipher. The initiator chooses the first one if its processor has AES instructions,
/// otherwise the second.
const PATTERNS: [&str; 2] = ["Noise_NNpsk0_25519_AESGCM_SHA256", "Noise_NNpsk0_25519_ChaChaPoly_SHA256"];
/// Bytes of a record's length.
const LENGTH_BYTES: usize = 2;
/// The largest ciphertext of a record.
const RECORD_BYTES_MAX: usize = u16::MAX as usize;
/// What encryption adds to a record.
const TAG_BYTES: usize = 16;
/// The most plaintext in one record.
const PLAINTEXT_BYTES_MAX: usize = RECORD_BYTES_MAX - TAG_BYTES;
/// The largest handshake record: a public key and a tag.
const HANDSHAKE_BYTES_MAX: usize = 64;
/// The largest record of a peer that has not greeted.
const GREETING_BYTES_MAX: usize = 512;

/// Why a stream ends.
#[derive(Debug, Error)]
pub(crate) enum NoiseError {
    #[error("the peer does not know the session's key, or belongs to another session")]
    Refused,
    #[error("a record of the peer was altered")]
    Altered,
    #[error("the peer speaks no Noise")]
    Length,
    #[error("no cryptography: {0}")]
    Setup(snow::Error),
}

impl NoiseError {
    /// Returns its kind; each kind is reported once.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            NoiseError::Refused => "refused",
            NoiseError::Altered => "altered",
            NoiseError::Length => "no Noise",
            NoiseError::Setup(_) => "no cryptography",
        }
    }
}

/// One end of an encrypted stream.
pub(crate) enum Noise {
    /// The responder before the first record, without any state.
    Expecting(SessionId, SessionKey),
    /// The initiator before its connection.
    Silent,
    /// The first record is sent.
    Handshake(Box<HandshakeState>),
    /// Records follow.
    Transport(Box<TransportState>),
    /// After an error.
    Broken,
}

impl Noise {
    /// Creates the initiator; appends its first record to `out`.
    pub(crate) fn initiator(session: SessionId, key: &SessionKey, out: &mut Buffer) -> Result<Noise, NoiseError> {
        let pattern = PATTERNS[usize::from(!has_aes())];
        Noise::initiator_by(pattern, session, key, out)
    }

    fn initiator_by(
        pattern: &str,
        session: SessionId,
        key: &SessionKey,
        out: &mut Buffer,
    ) -> Result<Noise, NoiseError> {
        let mut state = handshake_state(pattern, session, key, |builder| builder.build_initiator())?;
        handshake(&mut state, out)?;
        Ok(Noise::Handshake(Box::new(state)))
    }

    /// Creates the responder.
    pub(crate) fn responder(session: SessionId, key: &SessionKey) -> Noise {
        Noise::Expecting(session, key.clone())
    }

    /// Returns true after the handshake.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self, Noise::Transport(_))
    }

    /// Returns the length of the first record of `received`; `None` if it is incomplete. Before its greeting, a peer
    /// can't send long records.
    pub(crate) fn record(&self, received: &[u8], has_greeted: bool) -> Result<Option<usize>, NoiseError> {
        let Some(length) = received.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let bytes = usize::from(u16::from_be_bytes(*length));
        let bytes_max = match self {
            Noise::Transport(_) if has_greeted => RECORD_BYTES_MAX,
            Noise::Transport(_) => GREETING_BYTES_MAX,
            _ => HANDSHAKE_BYTES_MAX,
        };
        if bytes > bytes_max || bytes < TAG_BYTES {
            return Err(NoiseError::Length);
        }
        Ok((received.len() >= LENGTH_BYTES + bytes).then_some(LENGTH_BYTES + bytes))
    }

    /// Decrypts one complete record: appends its plaintext to `plain`, or the handshake's answer to `out`.
    pub(crate) fn receive(&mut self, record: &[u8], plain: &mut Buffer, out: &mut Buffer) -> Result<(), NoiseError> {
        let ciphertext = &record[LENGTH_BYTES..];
        match std::mem::replace(self, Noise::Broken) {
            Noise::Expecting(session, key) => *self = transport(answer(session, &key, ciphertext, out)?)?,
            Noise::Handshake(mut state) => {
                state.read_message(ciphertext, &mut [0; HANDSHAKE_BYTES_MAX]).map_err(|_| NoiseError::Refused)?;
                *self = transport(*state)?;
            }
            Noise::Transport(mut state) => {
                let room = plain.room(ciphertext.len());
                let bytes = state.read_message(ciphertext, room).map_err(|_| NoiseError::Altered)?;
                plain.filled(bytes);
                *self = Noise::Transport(state);
            }
            Noise::Silent | Noise::Broken => return Err(NoiseError::Altered),
        }
        Ok(())
    }

    /// Encrypts `plain` as records and appends them to `out`.
    pub(crate) fn send(&mut self, plain: &[u8], out: &mut Buffer) -> Result<(), NoiseError> {
        let Noise::Transport(state) = self else { return Err(NoiseError::Refused) };
        for piece in plain.chunks(PLAINTEXT_BYTES_MAX) {
            out.put(&((piece.len() + TAG_BYTES) as u16).to_be_bytes());
            let room = out.room(piece.len() + TAG_BYTES);
            let bytes = state.write_message(piece, room).map_err(|_| NoiseError::Altered)?;
            out.filled(bytes);
        }
        Ok(())
    }
}

/// Reads the first record by any pattern, and appends the answer to `out`.
fn answer(session: SessionId, key: &SessionKey, first: &[u8], out: &mut Buffer) -> Result<HandshakeState, NoiseError> {
    for pattern in PATTERNS {
        let mut state = handshake_state(pattern, session, key, |builder| builder.build_responder())?;
        if state.read_message(first, &mut [0; HANDSHAKE_BYTES_MAX]).is_ok() {
            handshake(&mut state, out)?;
            return Ok(state);
        }
    }
    Err(NoiseError::Refused)
}

fn transport(state: HandshakeState) -> Result<Noise, NoiseError> {
    let state = state.into_transport_mode().map_err(|_| NoiseError::Refused)?;
    Ok(Noise::Transport(Box::new(state)))
}

/// Returns true if the processor has instructions for AES and GCM. In software, AES-GCM is several times slower than
/// ChaCha20-Poly1305.
pub fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes") && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

fn handshake_state(
    pattern: &str,
    session: SessionId,
    key: &SessionKey,
    build: impl FnOnce(Builder<'_>) -> Result<HandshakeState, snow::Error>,
) -> Result<HandshakeState, NoiseError> {
    let params: NoiseParams = pattern.parse().map_err(NoiseError::Setup)?;
    let prologue = session.0.to_be_bytes();
    let builder = Builder::new(params).psk(0, &key.0).and_then(|builder| builder.prologue(&prologue));
    builder.and_then(build).map_err(NoiseError::Setup)
}

fn handshake(state: &mut HandshakeState, out: &mut Buffer) -> Result<(), NoiseError> {
    let mut message = [0; HANDSHAKE_BYTES_MAX];
    let bytes = state.write_message(&[], &mut message).map_err(NoiseError::Setup)?;
    out.put(&(bytes as u16).to_be_bytes());
    out.put(&message[..bytes]);
    Ok(())
}

impl std::fmt::Debug for Noise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Noise::Expecting(..) => "Expecting",
            Noise::Handshake(_) => "Handshake",
            Noise::Transport(_) => "Transport",
            Noise::Silent => "Silent",
            Noise::Broken => "Broken",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes all complete records of `wire` to `to`.
    fn pass(wire: &mut Buffer, to: &mut Noise, plain: &mut Buffer, out: &mut Buffer) -> Result<(), NoiseError> {
        while let Some(bytes) = to.record(wire.data(), true)? {
            to.receive(&wire.data()[..bytes], plain, out)?;
            wire.consume(bytes);
        }
        Ok(())
    }

    fn pair(sessions: [u128; 2], keys: [u8; 2]) -> Result<(Noise, Noise), NoiseError> {
        let pairs = PATTERNS.map(|pattern| pair_by(pattern, sessions, keys));
        let [pair, other] = pairs;
        assert_eq!(pair.is_ok(), other.is_ok(), "both ciphers behave the same");
        pair
    }

    fn pair_by(pattern: &str, sessions: [u128; 2], keys: [u8; 2]) -> Result<(Noise, Noise), NoiseError> {
        let (mut there, mut back, mut plain) = (Buffer::default(), Buffer::default(), Buffer::default());
        let mut a = Noise::initiator_by(pattern, SessionId(sessions[0]), &SessionKey([keys[0]; 32]), &mut there)?;
        let mut b = Noise::responder(SessionId(sessions[1]), &SessionKey([keys[1]; 32]));
        pass(&mut there, &mut b, &mut plain, &mut back)?;
        pass(&mut back, &mut a, &mut plain, &mut there)?;
        assert!(a.is_ready() && b.is_ready() && plain.is_empty());
        Ok((a, b))
    }

    #[test]
    fn large_pieces_go_through_by_either_cipher() {
        for pattern in PATTERNS {
            let (mut a, mut b) = pair_by(pattern, [1, 1], [2, 2]).unwrap();
            let sent: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
            let (mut wire, mut plain, mut out) = (Buffer::default(), Buffer::default(), Buffer::default());
            a.send(&sent, &mut wire).unwrap();
            pass(&mut wire, &mut b, &mut plain, &mut out).unwrap();
            assert_eq!(plain.data(), sent);
            assert!(wire.is_empty() && out.is_empty());
        }
    }

    #[test]
    fn another_key_or_session_is_refused() {
        assert!(matches!(pair([1, 1], [2, 3]), Err(NoiseError::Refused)));
        assert!(matches!(pair([1, 9], [2, 2]), Err(NoiseError::Refused)));
    }

    #[test]
    fn altered_records_are_refused() {
        let (mut a, mut b) = pair([1, 1], [2, 2]).unwrap();
        let (mut wire, mut plain, mut out) = (Buffer::default(), Buffer::default(), Buffer::default());
        a.send(b"abc", &mut wire).unwrap();
        let last = wire.data().last().copied().unwrap();
        wire.take_back(1);
        wire.put(&[last ^ 1]);
        assert!(matches!(pass(&mut wire, &mut b, &mut plain, &mut out), Err(NoiseError::Altered)));
    }

    #[test]
    fn unauthenticated_peers_cost_no_memory() {
        let unauthenticated = Noise::responder(SessionId(1), &SessionKey([2; 32]));
        assert!(matches!(unauthenticated.record(b"GET / HTTP", false), Err(NoiseError::Length)));
        assert!(matches!(unauthenticated.record(&[0, 3], false), Err(NoiseError::Length)));
        assert!(matches!(unauthenticated.record(&[0], false), Ok(None)));
        // The replay of a first record gets this far.
        let (_, ready) = pair([1, 1], [2, 2]).unwrap();
        assert!(matches!(ready.record(&[2, 1], false), Err(NoiseError::Length)));
        assert!(matches!(ready.record(&[2, 0], false), Ok(None)));
        assert!(matches!(ready.record(&[255, 255], true), Ok(None)));
    }
}
