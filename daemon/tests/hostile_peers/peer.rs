//! A peer that connects to a daemon's TCP socket, with or without the session's secrets.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use headwater_abi::wire::{Message, RELEASE, VERSION};
use headwater_daemon::{Branching, Forest, LinkProtection, Shape};
use snow::{Builder, HandshakeState, TransportState};

use crate::support::{KEY, SESSION, TEST_TIMEOUT};

/// The inputs of a handshake.
#[derive(Clone, Copy)]
pub struct Secrets {
    pub key: [u8; 32],
    pub session: u128,
    pub cipher: &'static str,
    pub protection: LinkProtection,
}

/// One end of a connection whose handshake is over.
pub struct Peer {
    pub stream: TcpStream,
    state: TransportState,
}

/// The session's secrets.
pub const TRUE: Secrets =
    Secrets { key: KEY, session: SESSION.0, cipher: "AESGCM", protection: LinkProtection::Encrypt };

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream
}

/// Reads until the other end closes the connection, as it must.
pub fn rest(mut stream: &TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("the connection was not closed"),
        // Unread bytes turn the close into a reset.
        _ => bytes,
    }
}

/// Sends these bytes and nothing more, and returns the reply.
pub fn answer(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(address);
    // A refusal may arrive before everything is sent.
    let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write));
    rest(&stream)
}

/// Returns the first record of a handshake.
pub fn first_record(secrets: &Secrets) -> (HandshakeState, Vec<u8>) {
    let mut state = builder(secrets).and_then(Builder::build_initiator).unwrap();
    let record = handshake_record(&mut state);
    (state, record)
}

fn builder(secrets: &Secrets) -> Result<Builder<'_>, snow::Error> {
    let Secrets { key, session, cipher, protection } = secrets;
    let name = if *protection == LinkProtection::Encrypt { "" } else { protection.name() };
    let prologue = [&session.to_be_bytes(), name.as_bytes()].concat();
    let params = format!("Noise_NNpsk0_25519_{cipher}_SHA256").parse().unwrap();
    // The prologue is hashed when the handshake is made, so it needs the same lifetime.
    Builder::new(params).psk(0, key)?.prologue(prologue.leak())
}

fn handshake_record(state: &mut HandshakeState) -> Vec<u8> {
    let mut record = vec![0; 64];
    let bytes = state.write_message(&[], &mut record[2..]).unwrap();
    record[..2].copy_from_slice(&(bytes as u16).to_be_bytes());
    record.truncate(2 + bytes);
    record
}

/// Makes a handshake; returns `None` if the other end refuses it, without a byte.
pub fn shake_hands(address: SocketAddr, secrets: &Secrets) -> Option<Peer> {
    let mut stream = connect(address);
    let (mut state, first) = first_record(secrets);
    stream.write_all(&first).unwrap();
    let Some(answer) = read_record(&mut stream) else {
        assert_eq!(rest(&stream), b"");
        return None;
    };
    state.read_message(&answer[2..], &mut [0; 64]).ok()?;
    Some(Peer { stream, state: state.into_transport_mode().unwrap() })
}

/// Answers a handshake; returns `None` if the bytes are none.
pub fn answer_hands(mut stream: TcpStream) -> Option<Peer> {
    let first = read_record(&mut stream)?;
    let mut state = builder(&TRUE).and_then(Builder::build_responder).unwrap();
    state.read_message(&first[2..], &mut [0; 64]).ok()?;
    stream.write_all(&handshake_record(&mut state)).ok()?;
    Some(Peer { stream, state: state.into_transport_mode().unwrap() })
}

/// Reads a record with its length, if one arrives.
pub fn read_record(stream: &mut impl Read) -> Option<Vec<u8>> {
    let mut record = vec![0; 2];
    stream.read_exact(&mut record).ok()?;
    record.resize(2 + usize::from(u16::from_be_bytes([record[0], record[1]])), 0);
    stream.read_exact(&mut record[2..]).ok()?;
    Some(record)
}

/// Returns the correct greeting of the child `rank` of `ranks`.
pub fn hello(rank: u32, ranks: u32) -> Message {
    hello_by(VERSION, SESSION.0, rank, ranks, 3)
}

/// The same in a session of another shape.
pub fn hello_in(shape: Shape, rank: u32, ranks: u32) -> Message {
    let forest = Forest::new(ranks, 0, shape).fingerprint();
    Message::Hello {
        version: VERSION,
        release: RELEASE.into(),
        session: SESSION.0,
        rank,
        forest,
        is_child: true,
        endpoint: None,
    }
}

/// The same with every field given.
pub fn hello_by(version: u32, session: u128, rank: u32, ranks: u32, fan_out: u32) -> Message {
    let forest = Forest::new(ranks, 0, Shape::Single(Branching::KAry(fan_out))).fingerprint();
    Message::Hello { version, release: RELEASE.into(), session, rank, forest, is_child: true, endpoint: None }
}

/// Returns the answer of the parent with this rank of `ranks` to a greeting.
pub fn parents_hello(rank: u32, ranks: u32) -> Message {
    parents_hello_in(Shape::Single(Branching::KAry(3)), rank, ranks)
}

/// The same in a session of another shape.
pub fn parents_hello_in(shape: Shape, rank: u32, ranks: u32) -> Message {
    match hello_in(shape, rank, ranks) {
        Message::Hello { version, release, session, rank, forest, .. } => {
            Message::Hello { version, release, session, rank, forest, is_child: false, endpoint: None }
        }
        other => other,
    }
}

pub fn frame(message: &Message, content: &[u8]) -> Vec<u8> {
    let body = [message.encode(), content.to_vec()].concat();
    [&(body.len() as u32).to_le_bytes()[..], &body].concat()
}

impl Peer {
    /// Encrypts this as a record.
    pub fn record(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut record = vec![0; 2 + plain.len() + 16];
        let bytes = self.state.write_message(plain, &mut record[2..]).unwrap();
        record[..2].copy_from_slice(&(bytes as u16).to_be_bytes());
        record
    }

    /// Sends bytes unchanged. The other end may refuse them.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Sends these bytes, encrypted.
    pub fn send_plain(&mut self, plain: &[u8]) {
        let record = self.record(plain);
        self.send(&record);
    }

    /// The same in as many records as needed.
    pub fn send_long(&mut self, plain: &[u8]) {
        plain.chunks(60_000).for_each(|piece| self.send_plain(piece));
    }

    /// Receives a record and returns its plaintext.
    pub fn receive_plain(&mut self) -> Option<Vec<u8>> {
        let record = read_record(&mut self.stream)?;
        self.open(&record)
    }

    /// Decrypts a record.
    pub fn open(&mut self, record: &[u8]) -> Option<Vec<u8>> {
        let mut plain = vec![0; record.len()];
        let bytes = self.state.read_message(&record[2..], &mut plain).ok()?;
        plain.truncate(bytes);
        Some(plain)
    }

    /// Sends nothing more, and waits for the other end to close the connection.
    pub fn must_be_refused(self) {
        let _ = self.stream.shutdown(Shutdown::Write);
        rest(&self.stream);
    }
}
