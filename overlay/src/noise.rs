//! The protected stream below a link: a handshake by `Noise_NNpsk0` with the session's key, then records.
//!
//! Two handshake records, one each way, settle the keys of this connection. The prologue is the session's identity and
//! the protection of the records. So peers of another session, and those that protect records otherwise, fail in the
//! handshake, and no attacker in between can change the protection. Peers of another version of the protocol fail in the
//! greeting, which carries the version.
//!
//! The answer proves to the initiator that the responder knows the key. To the responder, only the first record after
//! the handshake is proof: all before may be a replay.

use snow::params::NoiseParams;
use snow::{Builder, HandshakeState};
use thiserror::Error;

use crate::buffer::Buffer;
use crate::records::{Altered, LENGTH_BYTES, RECORD_BYTES_MAX, Records, TAG_BYTES};
use crate::session::{LinkProtection, SessionId, SessionKey};

/// The accepted patterns, by cipher. The initiator chooses the first one if its processor has AES instructions,
/// otherwise the second.
const PATTERNS: [&str; 2] = ["Noise_NNpsk0_25519_AESGCM_SHA256", "Noise_NNpsk0_25519_ChaChaPoly_SHA256"];
/// The largest handshake record: a public key and a tag.
const HANDSHAKE_BYTES_MAX: usize = 64;
/// The largest record of a peer that has not greeted.
const GREETING_BYTES_MAX: usize = 512;

/// Why a stream ends.
#[derive(Debug, Error)]
pub(crate) enum NoiseError {
    #[error("the peer does not know the session's key, or belongs to another session")]
    Refused,
    #[error(
        "the peer has --link-protection {theirs}, and this node {ours}: start all nodes of the session with the same"
    )]
    Protection { ours: LinkProtection, theirs: LinkProtection },
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
            NoiseError::Protection { .. } => "another protection",
            NoiseError::Altered => "altered",
            NoiseError::Length => "no Noise",
            NoiseError::Setup(_) => "no cryptography",
        }
    }
}

/// What both ends must have in common.
#[derive(Clone)]
pub(crate) struct Terms {
    session: SessionId,
    key: SessionKey,
    protection: LinkProtection,
}

/// One end of a protected stream.
pub(crate) enum Noise {
    /// The responder before the first record, without any state.
    Expecting(Terms),
    /// The initiator before its connection.
    Silent,
    /// The first record is sent.
    Handshake(Box<HandshakeState>, LinkProtection),
    /// Records follow.
    Transport(Records),
    /// After an error.
    Broken,
}

impl Noise {
    /// Creates the initiator; appends its first record to `out`.
    pub(crate) fn initiator(
        session: SessionId,
        key: &SessionKey,
        protection: LinkProtection,
        out: &mut Buffer,
    ) -> Result<Noise, NoiseError> {
        let pattern = PATTERNS[usize::from(!has_aes())];
        Noise::initiator_by(pattern, &Terms { session, key: key.clone(), protection }, out)
    }

    fn initiator_by(pattern: &str, terms: &Terms, out: &mut Buffer) -> Result<Noise, NoiseError> {
        let mut state = handshake_state(pattern, terms, |builder| builder.build_initiator())?;
        handshake(&mut state, out)?;
        Ok(Noise::Handshake(Box::new(state), terms.protection))
    }

    /// Creates the responder.
    pub(crate) fn responder(session: SessionId, key: &SessionKey, protection: LinkProtection) -> Noise {
        Noise::Expecting(Terms { session, key: key.clone(), protection })
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

    /// Reads one complete record: appends its content to `plain`, or the handshake's answer to `out`.
    pub(crate) fn receive(&mut self, record: &[u8], plain: &mut Buffer, out: &mut Buffer) -> Result<(), NoiseError> {
        let record = &record[LENGTH_BYTES..];
        match std::mem::replace(self, Noise::Broken) {
            Noise::Expecting(terms) => {
                *self = transport(answer(&terms, record, out)?, terms.protection)?;
            }
            Noise::Handshake(mut state, protection) => {
                state.read_message(record, &mut [0; HANDSHAKE_BYTES_MAX]).map_err(|_| NoiseError::Refused)?;
                *self = transport(*state, protection)?;
            }
            Noise::Transport(mut records) => {
                records.receive(record, plain).map_err(|Altered| NoiseError::Altered)?;
                *self = Noise::Transport(records);
            }
            Noise::Silent | Noise::Broken => return Err(NoiseError::Altered),
        }
        Ok(())
    }

    /// Appends `plain` to `out` as records.
    pub(crate) fn send(&mut self, plain: &[u8], out: &mut Buffer) -> Result<(), NoiseError> {
        let Noise::Transport(records) = self else { return Err(NoiseError::Refused) };
        records.send(plain, out).map_err(|Altered| NoiseError::Altered)
    }
}

/// Reads the first record by any pattern, and appends the answer to `out`. A peer that knows the key and protects its
/// records otherwise gets no answer either; the error names the cause.
fn answer(terms: &Terms, first: &[u8], out: &mut Buffer) -> Result<HandshakeState, NoiseError> {
    for pattern in PATTERNS {
        if let Some(mut state) = read_first(pattern, terms, first)? {
            handshake(&mut state, out)?;
            return Ok(state);
        }
    }
    let ours = terms.protection;
    for theirs in LinkProtection::ALL.into_iter().filter(|&theirs| theirs != ours) {
        let others = Terms { protection: theirs, ..terms.clone() };
        for pattern in PATTERNS {
            if read_first(pattern, &others, first)?.is_some() {
                return Err(NoiseError::Protection { ours, theirs });
            }
        }
    }
    Err(NoiseError::Refused)
}

/// Reads the first record by this pattern. Returns `None` if it was made by another, or on other terms.
fn read_first(pattern: &str, terms: &Terms, first: &[u8]) -> Result<Option<HandshakeState>, NoiseError> {
    let mut state = handshake_state(pattern, terms, |builder| builder.build_responder())?;
    let is_read = state.read_message(first, &mut [0; HANDSHAKE_BYTES_MAX]).is_ok();
    Ok(is_read.then_some(state))
}

fn transport(state: HandshakeState, protection: LinkProtection) -> Result<Noise, NoiseError> {
    Records::new(state, protection).map(Noise::Transport).map_err(|_| NoiseError::Refused)
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
    terms: &Terms,
    build: impl FnOnce(Builder<'_>) -> Result<HandshakeState, snow::Error>,
) -> Result<HandshakeState, NoiseError> {
    let params: NoiseParams = pattern.parse().map_err(NoiseError::Setup)?;
    let mut prologue = terms.session.0.to_be_bytes().to_vec();
    // Encryption, the default, adds nothing.
    if terms.protection != LinkProtection::Encrypt {
        prologue.extend(terms.protection.name().as_bytes());
    }
    let builder = Builder::new(params).psk(0, &terms.key.0).and_then(|builder| builder.prologue(&prologue));
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
            Noise::Handshake(..) => "Handshake",
            Noise::Transport(_) => "Transport",
            Noise::Silent => "Silent",
            Noise::Broken => "Broken",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{ENCRYPTED_BYTES_MAX, READABLE_BYTES_MAX};
    use LinkProtection::{Authenticate, Encrypt};

    fn terms(session: u128, key: u8, protection: LinkProtection) -> Terms {
        Terms { session: SessionId(session), key: SessionKey([key; 32]), protection }
    }

    /// Passes all complete records of `wire` to `to`.
    fn pass(wire: &mut Buffer, to: &mut Noise, plain: &mut Buffer, out: &mut Buffer) -> Result<(), NoiseError> {
        while let Some(bytes) = to.record(wire.data(), true)? {
            to.receive(&wire.data()[..bytes], plain, out)?;
            wire.consume(bytes);
        }
        Ok(())
    }

    /// Passes these records to `to`. Returns what it has read, and the error that ended it.
    fn read(to: &mut Noise, records: &[&[u8]]) -> (Vec<u8>, Option<NoiseError>) {
        let (mut wire, mut plain, mut out) = (Buffer::default(), Buffer::default(), Buffer::default());
        wire.put(&records.concat());
        let error = pass(&mut wire, to, &mut plain, &mut out).err();
        assert!(out.is_empty(), "no record is answered");
        if error.is_some() {
            let (mut more, mut rest) = (Buffer::default(), Buffer::default());
            let again = to.receive(&wire.data()[..to_end(wire.data())], &mut more, &mut rest);
            assert!(again.is_err() && more.is_empty(), "an ended stream stays so");
        }
        (plain.data().to_vec(), error)
    }

    /// Returns the length of the first record, or of what is there of it.
    fn to_end(wire: &[u8]) -> usize {
        let length = wire.first_chunk().map_or(0, |length| usize::from(u16::from_be_bytes(*length)));
        wire.len().min(LENGTH_BYTES + length)
    }

    /// Returns these contents as one record each.
    fn records<const N: usize>(from: &mut Noise, contents: [&[u8]; N]) -> [Vec<u8>; N] {
        contents.map(|content| {
            let mut wire = Buffer::default();
            from.send(content, &mut wire).unwrap();
            assert_eq!(to_end(wire.data()), wire.len(), "it is one record");
            wire.data().to_vec()
        })
    }

    fn pair(ours: &Terms, theirs: &Terms) -> Result<(Noise, Noise), NoiseError> {
        let pairs = PATTERNS.map(|pattern| pair_by(pattern, ours, theirs));
        let [pair, other] = pairs;
        assert_eq!(pair.is_ok(), other.is_ok(), "both ciphers behave the same");
        pair
    }

    fn pair_by(pattern: &str, ours: &Terms, theirs: &Terms) -> Result<(Noise, Noise), NoiseError> {
        let (mut there, mut back, mut plain) = (Buffer::default(), Buffer::default(), Buffer::default());
        let mut a = Noise::initiator_by(pattern, ours, &mut there)?;
        let mut b = Noise::responder(theirs.session, &theirs.key, theirs.protection);
        let read = pass(&mut there, &mut b, &mut plain, &mut back);
        assert!(read.is_ok() || back.is_empty(), "a refused peer gets no answer");
        read?;
        pass(&mut back, &mut a, &mut plain, &mut there)?;
        assert!(a.is_ready() && b.is_ready() && plain.is_empty());
        Ok((a, b))
    }

    /// Runs `check` with both ends of a stream of each kind.
    fn each(check: impl Fn(Noise, Noise)) {
        for (pattern, protection) in
            PATTERNS.into_iter().flat_map(|pattern| LinkProtection::ALL.map(|it| (pattern, it)))
        {
            let terms = terms(1, 2, protection);
            let (a, b) = pair_by(pattern, &terms, &terms).unwrap();
            check(a, b);
        }
    }

    fn is_altered(read: &(Vec<u8>, Option<NoiseError>), content: &[u8]) -> bool {
        read.0 == content && matches!(read.1, Some(NoiseError::Altered))
    }

    #[test]
    fn content_goes_through_both_ways() {
        let content: Vec<u8> = (0..200_000u32).map(|n| (n * 7) as u8).collect();
        let lengths =
            [1, READABLE_BYTES_MAX, READABLE_BYTES_MAX + 1, ENCRYPTED_BYTES_MAX, ENCRYPTED_BYTES_MAX + 1, 200_000];
        each(|mut a, mut b| {
            for bytes in lengths {
                for swaps in [false, true] {
                    let (from, to) = if swaps { (&mut b, &mut a) } else { (&mut a, &mut b) };
                    let mut wire = Buffer::default();
                    from.send(&content[..bytes], &mut wire).unwrap();
                    let (plain, error) = read(to, &[wire.data()]);
                    assert!(plain == content[..bytes] && error.is_none(), "{bytes} bytes, {error:?}");
                }
            }
        });
    }

    #[test]
    fn only_authenticated_records_can_be_read_on_the_way() {
        for (protection, is_shown) in [(Encrypt, false), (Authenticate, true)] {
            let (mut a, _) = pair(&terms(1, 2, protection), &terms(1, 2, protection)).unwrap();
            let [record] = records(&mut a, [b"content that shows"]);
            assert_eq!(record.windows(18).any(|part| part == b"content that shows"), is_shown);
        }
    }

    #[test]
    fn another_key_or_session_is_refused() {
        for protection in LinkProtection::ALL {
            let ours = terms(1, 2, protection);
            assert!(matches!(pair(&ours, &terms(1, 3, protection)), Err(NoiseError::Refused)));
            assert!(matches!(pair(&ours, &terms(9, 2, protection)), Err(NoiseError::Refused)));
        }
    }

    #[test]
    fn another_protection_is_refused_and_named() {
        for (initiator, responder) in [(Encrypt, Authenticate), (Authenticate, Encrypt)] {
            let error = pair(&terms(1, 2, initiator), &terms(1, 2, responder)).unwrap_err();
            assert!(
                matches!(error, NoiseError::Protection { ours, theirs } if (ours, theirs) == (responder, initiator))
            );
            let expected = format!("the peer has --link-protection {initiator}, and this node {responder}: start ");
            assert!(error.to_string().starts_with(&expected), "{error}");
            let strange = [terms(9, 2, responder), terms(1, 3, responder)];
            let refused = strange.map(|theirs| pair(&terms(1, 2, initiator), &theirs));
            assert!(refused.iter().all(|it| matches!(it, Err(NoiseError::Refused))), "it takes the key to be named");
        }
    }

    #[test]
    fn altered_records_end_the_stream() {
        // The length, the content, the tag, of a short record and of one of several hashed pieces.
        for content in [&b"abc"[..], &[7; 40_000]] {
            let positions = [0, 1, 2, 1 + content.len(), 2 + content.len(), 17 + content.len()];
            for at in positions {
                each(|mut a, mut b| {
                    let [first, mut second, third] = records(&mut a, [b"1", content, b"3"]);
                    second[at] ^= 1;
                    let read = read(&mut b, &[&first, &second, &third, &third[..]]);
                    let is_longer = at < LENGTH_BYTES && read.1.is_none();
                    assert!(is_altered(&read, b"1") || is_longer && read.0 == b"1", "{at}: {read:?}");
                });
            }
        }
    }

    #[test]
    fn a_byte_may_not_move_between_records_content_and_tag() {
        each(|mut a, mut b| {
            let [mut record, next] = records(&mut a, [b"abc", b"def"]);
            record.push(next[0]);
            record[1] += 1;
            assert!(is_altered(&read(&mut b, &[&record]), b""));
        });
        each(|mut a, mut b| {
            let [mut record] = records(&mut a, [b"abc"]);
            record.pop();
            record[1] -= 1;
            assert!(is_altered(&read(&mut b, &[&record]), b""));
        });
    }

    #[test]
    fn records_have_one_order() {
        each(|mut a, mut b| {
            let [first, second, third] = records(&mut a, [b"1", b"2", b"3"]);
            assert!(is_altered(&read(&mut b, &[&first, &third, &second]), b"1"), "one is left out, or swapped");
        });
        each(|mut a, mut b| {
            let [first, second] = records(&mut a, [b"same", b"same"]);
            assert!(is_altered(&read(&mut b, &[&second, &first]), b""), "swapped though equal");
        });
        each(|mut a, mut b| {
            let [first, second] = records(&mut a, [b"1", b"2"]);
            assert!(is_altered(&read(&mut b, &[&first, &first, &second]), b"1"), "repeated");
        });
    }

    #[test]
    fn records_belong_to_one_direction_of_one_connection() {
        each(|mut a, mut b| {
            let [mine] = records(&mut a, [b"mine"]);
            assert!(is_altered(&read(&mut a, &[&mine]), b""), "reflected to its sender");
            let [theirs] = records(&mut b, [b"mine"]);
            assert_ne!(mine, theirs, "the directions have different keys");
            assert!(is_altered(&read(&mut b, &[&theirs]), b""), "reflected to its sender");
        });
        each(|mut a, _| {
            let [elsewhere] = records(&mut a, [b"1"]);
            each(|_, mut b| assert!(is_altered(&read(&mut b, &[&elsewhere]), b""), "of another connection"));
        });
    }

    #[test]
    fn of_a_stream_that_is_cut_only_whole_records_are_read() {
        each(|mut a, mut b| {
            let [first, second] = records(&mut a, [b"1", b"2"]);
            let cut = [&first[..], &second[..second.len() - 1]].concat();
            assert!(matches!(read(&mut b, &[&cut]), (plain, None) if plain == b"1"));
        });
        each(|mut a, mut b| {
            // What the attacker adds does not complete it.
            let [first, second] = records(&mut a, [b"1", b"2"]);
            let cut = [&first[..], &second[..second.len() - 1], &[!second[second.len() - 1]]].concat();
            assert!(is_altered(&read(&mut b, &[&cut]), b"1"));
        });
    }

    #[test]
    fn unauthenticated_peers_cost_no_memory() {
        let unauthenticated = Noise::Expecting(terms(1, 2, Authenticate));
        assert!(matches!(unauthenticated.record(b"GET / HTTP", false), Err(NoiseError::Length)));
        assert!(matches!(unauthenticated.record(&[0, 3], false), Err(NoiseError::Length)));
        assert!(matches!(unauthenticated.record(&[0], false), Ok(None)));
        each(|_, ready| {
            // The replay of a first record gets this far.
            assert!(matches!(ready.record(&[2, 1], false), Err(NoiseError::Length)));
            assert!(matches!(ready.record(&[2, 0], false), Ok(None)));
            assert!(matches!(ready.record(&[255, 255], true), Ok(None)));
        });
    }
}
