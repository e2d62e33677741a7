//! Tests of a link against a peer that knows the key but breaks the protocol.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use headwater_abi::wire::{Aspect, Digest, FRAME_BYTES_MAX, FileHead, Message, RELEASE, TransferId, VERSION};
use headwater_abi::{Attr, Path};
use headwater_proto::topology::Branching;
use headwater_proto::{Forest, Peer, Rank, Shape};

use crate::buffer::Buffer;
use crate::content_out::ContentOut;
use crate::link::{Identity, Outgoing};
use crate::link::{Link, LinkError, QUEUE_MAX, Received, Traffic};
use crate::noise::{Noise, NoiseError};
use crate::session::{LinkProtection, SessionId, SessionKey};
use crate::shared::Sharing;

fn forest(ranks: u32) -> Forest {
    Forest::new(ranks, 0, Shape::Single(Branching::KAry(2)))
}

/// The parent of ranks 1 and 2 of three.
fn identity(protection: LinkProtection) -> Identity {
    Identity { rank: Rank(0), forest: forest(3), session: SessionId(1), key: SessionKey([1; 32]), protection }
}

fn hello(rank: u32) -> Message {
    hello_by(VERSION, 1, rank, 3)
}

fn hello_by(version: u32, session: u128, rank: u32, ranks: u32) -> Message {
    let forest = forest(ranks).fingerprint();
    Message::Hello { version, release: "9.9".into(), session, rank, forest, is_child: true, endpoint: None }
}

fn frame(message: &Message, content: &[u8]) -> Vec<u8> {
    let body = [message.encode(), content.to_vec()].concat();
    [&(body.len() as u32).to_le_bytes()[..], &body].concat()
}

/// A link and the other end of its connection, after the handshake.
struct Pair {
    identity: Identity,
    link: Link,
    peer: TcpStream,
    noise: Noise,
}

impl Pair {
    fn new(protection: LinkProtection) -> Pair {
        let mut pair = Pair::begun(protection, protection);
        let mut plain = Buffer::default();
        while !pair.noise.is_ready() {
            assert!(pair.link.receive(&pair.identity, 0).unwrap().is_none());
            flush(&mut pair.link);
            read_record(&mut pair.peer, &mut pair.noise, &mut plain);
        }
        pair
    }

    /// Connects a peer, which sends the handshake's first record, to a link.
    fn begun(protection: LinkProtection, others: LinkProtection) -> Pair {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        accepted.set_nonblocking(true).unwrap();
        let identity = identity(protection);
        let link = Link::accept(mio::net::TcpStream::from_std(accepted), &identity, 0);
        let mut out = Buffer::default();
        let noise = Noise::initiator(identity.session, &identity.key, others, &mut out).unwrap();
        peer.write_all(out.data()).unwrap();
        Pair { identity, link, peer, noise }
    }

    fn send(&mut self, plain: &[u8]) {
        let mut out = Buffer::default();
        self.noise.send(plain, &mut out).unwrap();
        self.peer.write_all(out.data()).unwrap();
    }

    /// Returns what the link has received from the peer.
    fn receive(&mut self) -> Result<Received, LinkError> {
        loop {
            if let Some(received) = self.link.receive(&self.identity, 0)? {
                return Ok(received);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn error(&mut self) -> LinkError {
        match self.receive() {
            Err(error) => error,
            Ok(_) => panic!("accepted"),
        }
    }

    fn greeted(protection: LinkProtection) -> Pair {
        let mut pair = Pair::new(protection);
        pair.send(&frame(&hello(2), b""));
        assert!(matches!(pair.receive(), Ok(Received::Up(Peer::Child(Rank(2)), None))));
        pair
    }
}

fn chunk_out(position: u64, bytes: u32) -> ContentOut {
    let message = Message::Chunk { transfer: TransferId(1), position, bytes };
    ContentOut { message, path: Path::root(), block: None, ranges: [(position, bytes.into())].into() }
}

fn flush(link: &mut Link) -> usize {
    let read = |_: &ContentOut, bytes: &mut [u8]| {
        bytes.fill(b'c');
        Ok(())
    };
    link.flush(0, &mut Traffic::default(), &mut Buffer::default(), &read).unwrap()
}

fn read_record(peer: &mut TcpStream, noise: &mut Noise, plain: &mut Buffer) {
    let mut record = vec![0; 2];
    peer.read_exact(&mut record).unwrap();
    let bytes = u16::from_be_bytes([record[0], record[1]]);
    record.resize(2 + usize::from(bytes), 0);
    peer.read_exact(&mut record[2..]).unwrap();
    noise.receive(&record, plain, &mut Buffer::default()).unwrap();
}

#[test]
fn greetings_are_checked() {
    let forest = forest(3).fingerprint();
    let answering = Message::Hello {
        version: VERSION,
        release: RELEASE.into(),
        session: 1,
        rank: 1,
        forest,
        is_child: false,
        endpoint: None,
    };
    for (message, why) in [
        (Message::Alive, "it is missing"),
        (hello(0), "its rank is no neighbour's"),
        (hello(3), "its rank is no neighbour's"),
        (hello(u32::MAX), "its rank is no neighbour's"),
        (hello_by(VERSION, 2, 1, 3), "another session"),
        (hello_by(VERSION, 1, 1, 4), "another topology"),
        (answering, "the dialling end must be the child"),
    ] {
        for protection in LinkProtection::ALL {
            let mut pair = Pair::new(protection);
            pair.send(&frame(&message, b""));
            assert!(matches!(pair.error(), LinkError::Hello(reason) if reason == why), "{message:?}");
        }
    }
}

#[test]
fn a_peer_of_another_version_is_named() {
    let mut pair = Pair::new(LinkProtection::Encrypt);
    // Only the beginning of its greeting is understood.
    let mut greeting = hello_by(VERSION + 1, 1, 1, 3).encode();
    greeting.extend([0xff; 9]);
    pair.send(&[&(greeting.len() as u32).to_le_bytes()[..], &greeting].concat());
    let error = pair.error();
    let expected = format!(
        "the peer runs headwater 9.9 (wire version {}), and this node {RELEASE} ({VERSION}): install one of them on both",
        VERSION + 1
    );
    assert_eq!((error.kind(), error.to_string()), ("another version", expected));
}

#[test]
fn a_peer_of_another_protection_is_named_and_gets_no_answer() {
    let [ours, theirs] = LinkProtection::ALL;
    for (ours, theirs) in [(ours, theirs), (theirs, ours)] {
        let mut pair = Pair::begun(ours, theirs);
        let error = pair.error();
        let expected = format!(
            "the peer has --link-protection {theirs}, and this node {ours}: start all nodes of the session with the same"
        );
        assert_eq!((error.kind(), error.to_string()), ("another protection", expected));
        drop(pair.link);
        let mut answer = Vec::new();
        pair.peer.read_to_end(&mut answer).unwrap();
        assert!(answer.is_empty(), "{answer:?}");
    }
}

#[test]
fn altered_and_repeated_records_end_the_link() {
    for protection in LinkProtection::ALL {
        for at in [2, 9, 30] {
            let (mut pair, mut out) = (Pair::greeted(protection), Buffer::default());
            pair.noise.send(&frame(&Message::Alive, &[0; 9]), &mut out).unwrap();
            let mut record = out.data().to_vec();
            record[at] ^= 0x80;
            pair.peer.write_all(&record).unwrap();
            assert!(matches!(pair.error(), LinkError::Noise(NoiseError::Altered)), "{protection}, {at}");
        }
        let (mut pair, mut out) = (Pair::greeted(protection), Buffer::default());
        pair.noise.send(&frame(&Message::Alive, b""), &mut out).unwrap();
        pair.peer.write_all(&out.data().repeat(2)).unwrap();
        assert!(matches!(pair.receive(), Ok(Received::Message(_, Message::Alive, _))));
        assert!(matches!(pair.error(), LinkError::Noise(NoiseError::Altered)), "{protection}, repeated");
    }
}

#[test]
fn frames_are_bounded() {
    for protection in LinkProtection::ALL {
        let mut pair = Pair::greeted(protection);
        pair.send(&(FRAME_BYTES_MAX as u32 + 1).to_le_bytes());
        assert!(matches!(pair.error(), LinkError::FrameLength(bytes) if bytes == FRAME_BYTES_MAX + 1));
    }
}

#[test]
fn frames_must_be_messages() {
    for body in [&[250u8, 1, 2][..], &[]] {
        let mut pair = Pair::greeted(LinkProtection::Encrypt);
        pair.send(&[&(body.len() as u32).to_le_bytes()[..], body].concat());
        assert!(matches!(pair.error(), LinkError::Wire(_)), "{body:?}");
    }
    let mut pair = Pair::greeted(LinkProtection::Encrypt);
    let chunk = Message::Chunk { transfer: TransferId(1), position: 0, bytes: 4 };
    pair.send(&frame(&chunk, b"abc"));
    assert!(matches!(pair.error(), LinkError::Wire(_)), "a chunk lacks bytes");
}

#[test]
fn a_frame_that_breaks_off_is_no_message() {
    for protection in LinkProtection::ALL {
        let mut pair = Pair::greeted(protection);
        let whole = frame(&Message::Alive, b"");
        pair.send(&whole[..whole.len() - 1]);
        pair.peer.shutdown(Shutdown::Write).unwrap();
        assert!(matches!(pair.error(), LinkError::Closed));
    }
}

#[test]
fn chunks_arrive_with_their_bytes() {
    for protection in LinkProtection::ALL {
        let mut pair = Pair::greeted(protection);
        let content: Vec<u8> = (0..100_000u32).map(|n| n as u8).collect();
        let chunk = Message::Chunk { transfer: TransferId(1), position: 0, bytes: 100_000 };
        pair.send(&frame(&Message::Alive, b""));
        pair.send(&frame(&chunk, &content));
        assert!(matches!(pair.receive(), Ok(Received::Message(Peer::Child(Rank(2)), Message::Alive, _))));
        let Ok(Received::Message(_, message, range)) = pair.receive() else { panic!("no chunk") };
        assert_eq!(message, chunk);
        assert!(pair.link.content(range) == content);
    }
}

#[test]
fn a_slow_peer_costs_no_memory_and_its_chunks_are_not_reported_sent() {
    for protection in LinkProtection::ALL {
        let mut pair = Pair::greeted(protection);
        let bytes = 128 << 10;
        let count = 160;
        for number in 0..count {
            let chunk = chunk_out(number * u64::from(bytes), bytes);
            let shared = Sharing::default().of(&chunk);
            pair.link.send(Outgoing::Content(chunk, shared)).unwrap();
        }
        let sent = flush(&mut pair.link);
        assert!(sent < count as usize * 3 / 4, "the sockets' buffers can't hold it all");
        assert!(pair.link.buffered() < 1 << 20, "{} bytes are buffered for a slow peer", pair.link.buffered());
        let (mut plain, mut more) = (Buffer::default(), 0);
        while more == 0 {
            read_record(&mut pair.peer, &mut pair.noise, &mut plain);
            more = flush(&mut pair.link);
        }
    }
}

#[test]
fn short_content_that_has_gone_is_declined() {
    let mut pair = Pair::greeted(LinkProtection::Encrypt);
    let path = Path::new(b"/f").unwrap();
    let head = FileHead { attr: Attr { size: 9, ..Attr::default() }, format: 0, ranges: [(0, 9)].into(), whole: true };
    let (aspect, digest) = (Aspect::Whole, Digest([7; 32]));
    let message = Message::Content { path: path.clone(), aspect, head: head.clone(), digest };
    let content = ContentOut { message: message.clone(), path: path.clone(), block: None, ranges: head.ranges };
    for content in [content.clone(), content] {
        let shared = Sharing::default().of(&content);
        pair.link.send(Outgoing::Content(content, shared)).unwrap();
    }
    let reads = Cell::new(0);
    let read = |_: &ContentOut, bytes: &mut [u8]| {
        bytes.fill(b'c');
        if reads.replace(1) == 0 { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    };
    assert_eq!(pair.link.flush(0, &mut Traffic::default(), &mut Buffer::default(), &read).unwrap(), 2);
    let (mut greeting, mut plain) = (Buffer::default(), Buffer::default());
    read_record(&mut pair.peer, &mut pair.noise, &mut greeting);
    read_record(&mut pair.peer, &mut pair.noise, &mut plain);
    let declined = frame(&Message::Unavailable { path, aspect }, b"");
    assert_eq!(plain.data(), [frame(&message, &[b'c'; 9]), declined].concat());
}

#[test]
fn signs_of_life_go_before_what_waits() {
    for protection in LinkProtection::ALL {
        let mut pair = Pair::greeted(protection);
        let chunk = chunk_out(0, 9);
        let shared = Sharing::default().of(&chunk);
        pair.link.send(Outgoing::Content(chunk, shared)).unwrap();
        pair.link.send(Outgoing::Message(Message::Alive)).unwrap();
        let mut scratch = Buffer::default();
        scratch.put(b"what another link has left");
        let read = |_: &ContentOut, _: &mut [u8]| Ok(());
        assert_eq!(pair.link.flush(0, &mut Traffic::default(), &mut scratch, &read).unwrap(), 1);
        let (mut greeting, mut plain) = (Buffer::default(), Buffer::default());
        read_record(&mut pair.peer, &mut pair.noise, &mut greeting);
        let (message, _) = Message::decode(&greeting.data()[4..]).unwrap();
        assert!(matches!(message, Message::Hello { .. }));
        read_record(&mut pair.peer, &mut pair.noise, &mut plain);
        assert!(plain.data().starts_with(&frame(&Message::Alive, b"")));
    }
}

#[test]
fn a_peer_that_takes_nothing_is_given_up() {
    let mut pair = Pair::greeted(LinkProtection::Encrypt);
    for _ in 0..QUEUE_MAX {
        pair.link.send(Outgoing::Message(Message::Alive)).unwrap();
    }
    assert!(matches!(pair.link.send(Outgoing::Message(Message::Alive)), Err(LinkError::QueueFull)));
    flush(&mut pair.link);
    pair.link.send(Outgoing::Message(Message::Alive)).unwrap();
}
