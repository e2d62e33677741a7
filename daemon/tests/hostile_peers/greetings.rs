//! Handshakes, greetings and frames that are wrong in any way.

use std::io::Write;
use std::net::Shutdown;
use std::time::Duration;

use headwater_abi::client::Status;
use headwater_abi::wire::{FRAME_BYTES_MAX, Message, TransferId, VERSION};
use headwater_daemon::LinkProtection;

use crate::peer::{
    Secrets, TRUE, answer, connect, first_record, frame, hello, hello_by, parents_hello, rest, shake_hands,
};
use crate::process::Session;
use crate::support::{SESSION, eventually};

/// The root of five ranks: ranks 1 to 3 are its children, 4 is a child of 1.
fn root() -> Session {
    root_by(LinkProtection::Encrypt)
}

fn root_by(protection: LinkProtection) -> Session {
    let mut session = Session::prepare(5);
    session.start(1, |config| config.link_protection = protection);
    session
}

#[test]
fn a_peer_with_the_secrets_is_accepted_with_either_cipher() {
    let session = root();
    for (rank, cipher) in [(1, "AESGCM"), (2, "ChaChaPoly")] {
        let mut peer = shake_hands(session.address(0), &Secrets { cipher, ..TRUE }).expect("the secrets are right");
        peer.send_plain(&frame(&hello(rank, 5), b""));
        assert_eq!(peer.receive_plain(), Some(frame(&parents_hello(0, 5), b"")));
        assert_eq!(peer.receive_plain(), Some(frame(&Message::Alive, b"")), "the link is up");
    }
}

#[test]
fn a_peer_without_a_secret_is_refused_and_reported_once() {
    let session = root();
    for secrets in [
        Secrets { key: [8; 32], ..TRUE },
        Secrets { key: [0; 32], ..TRUE },
        Secrets { session: SESSION.0 + 1, ..TRUE },
        Secrets { key: [8; 32], cipher: "ChaChaPoly", ..TRUE },
    ] {
        for _ in 0..10 {
            assert!(shake_hands(session.address(0), &secrets).is_none());
        }
    }
    assert_eq!(session.nodes[0].logged("does not know the session's key"), 1, "{}", session.nodes[0].log());
    assert_eq!(session.ask(0, 0), Some(Status::Done));
}

#[test]
fn a_peer_of_another_protection_is_refused_and_reported_once() {
    for ours in LinkProtection::ALL {
        let session = root_by(ours);
        for protection in LinkProtection::ALL {
            for cipher in ["AESGCM", "ChaChaPoly"] {
                let peer = shake_hands(session.address(0), &Secrets { cipher, protection, ..TRUE });
                assert_eq!(peer.is_some(), ours == protection, "{protection} to {ours}");
                let unauthenticated = Secrets { cipher, protection, key: [8; 32], ..TRUE };
                assert!(shake_hands(session.address(0), &unauthenticated).is_none());
            }
        }
        let (node, theirs) =
            (&session.nodes[0], LinkProtection::ALL.into_iter().find(|&theirs| theirs != ours).unwrap());
        assert_eq!(node.logged(&format!("has --link-protection {theirs}, and this node {ours}")), 1, "{}", node.log());
        assert_eq!(node.logged("does not know the session's key"), 1, "{}", node.log());
        assert_eq!(session.ask(0, 0), Some(Status::Done));
    }
}

#[test]
fn a_wrong_greeting_is_refused_and_each_reason_reported_once() {
    let session = root();
    let own = |version, session, ranks, fan_out| hello_by(version, session, 1, ranks, fan_out);
    for (message, why) in [
        (own(VERSION - 1, SESSION.0, 5, 3), "install one of them on both"),
        (own(VERSION, SESSION.0 + 1, 5, 3), "another session"),
        (own(VERSION, SESSION.0, 6, 3), "another topology"),
        (own(VERSION, SESSION.0, 5, 2), "another topology"),
        (hello(0, 5), "its rank is no neighbour's"),
        (parents_hello(1, 5), "the dialling end must be the child"),
        (hello(5, 5), "its rank is no neighbour's"),
        (hello(u32::MAX, 5), "its rank is no neighbour's"),
        (Message::Alive, "it is missing"),
    ] {
        for _ in 0..3 {
            let mut peer = shake_hands(session.address(0), &TRUE).expect("the secrets are right");
            peer.send_plain(&frame(&message, b""));
            assert_eq!(peer.receive_plain(), Some(frame(&parents_hello(0, 5), b"")), "it greets at once itself");
            assert_eq!(peer.receive_plain(), None, "nothing more is sent: {message:?}");
            peer.must_be_refused();
        }
        assert_eq!(session.nodes[0].logged(why), 1, "{why}: {}", session.nodes[0].log());
    }
    assert_eq!(session.ask(0, 0), Some(Status::Done));
}

#[test]
fn garbage_instead_of_a_handshake_is_refused() {
    let session = root();
    let address = session.address(0);
    let (_, first) = first_record(&TRUE);
    let mut inputs = vec![b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![255; 1 << 20], vec![0; 4096], first[..20].to_vec()];
    inputs.extend([vec![0, 65], vec![0, 15], vec![0], Vec::new()]);
    // Each bit counts.
    inputs.extend((0..first.len() * 8).map(|bit| {
        let mut record = first.clone();
        record[bit / 8] ^= 1 << (bit % 8);
        record
    }));
    for input in &inputs {
        assert_eq!(answer(address, input), b"", "{input:?}");
    }
    let log = session.nodes[0].log();
    assert_eq!(session.nodes[0].logged("speaks no Noise"), 1, "{log}");
    assert_eq!(session.nodes[0].logged("does not know the session's key"), 1, "{log}");
    assert!(session.nodes[0].logged("refused") <= 4, "{log}");
    assert_eq!(session.ask(0, 0), Some(Status::Done));
}

#[test]
fn unauthenticated_peers_have_room_for_a_greeting_only() {
    let session = root();
    let mut bytes = 3;
    let mut at = 2;
    while at < bytes {
        let mut peer = shake_hands(session.address(0), &TRUE).expect("the secrets are right");
        let mut record = peer.record(&frame(&hello(1, 5), b""));
        bytes = record.len();
        record[at] ^= 1 << (at % 8);
        at += 1;
        peer.send(&record);
        assert_eq!(peer.receive_plain(), Some(frame(&parents_hello(0, 5), b"")), "it greets at once itself");
        assert_eq!(peer.receive_plain(), None, "byte {at}");
        peer.must_be_refused();
    }
    assert!(bytes > 2 + 4 + 16, "all of a greeting");
    for long in [vec![255; 1 << 20], vec![2, 1], vec![255, 255]] {
        let mut peer = shake_hands(session.address(0), &TRUE).expect("the secrets are right");
        peer.send(&long);
        assert!(peer.receive_plain().is_none_or(|greeting| greeting == frame(&parents_hello(0, 5), b"")));
        // The daemon closes it although the other end is still open.
        rest(&peer.stream);
    }
    assert_eq!(session.nodes[0].logged("speaks no Noise"), 1, "{}", session.nodes[0].log());
    assert_eq!(session.nodes[0].logged("was altered"), 1, "{}", session.nodes[0].log());
}

#[test]
fn a_child_that_sends_nonsense_loses_its_link() {
    let session = root();
    let before = session.nodes[0].memory();
    let whole = frame(&Message::Alive, b"");
    let chunk = frame(&Message::Chunk { transfer: TransferId(1), position: 0, bytes: 4 }, b"abc");
    for round in 0..20 {
        for plain in [
            (FRAME_BYTES_MAX as u32 + 1).to_le_bytes().to_vec(),
            u32::MAX.to_le_bytes().to_vec(),
            whole[..whole.len() - 1].to_vec(),
            (FRAME_BYTES_MAX as u32).to_le_bytes().to_vec(),
            vec![3, 0, 0, 0, 250, 1, 2],
            vec![0; 4],
            chunk.clone(),
            frame(&hello(1, 5), b""),
        ] {
            let mut peer = shake_hands(session.address(0), &TRUE).expect("the secrets are right");
            peer.send_plain(&frame(&hello(1, 5), b""));
            assert!(peer.receive_plain().is_some(), "it greets");
            peer.send_plain(&plain);
            peer.must_be_refused();
        }
        // Half a record.
        let mut peer = shake_hands(session.address(0), &TRUE).expect("the secrets are right");
        peer.send_plain(&frame(&hello(1, 5), b""));
        let record = peer.record(&whole);
        peer.send(&record[..record.len() - 1]);
        peer.must_be_refused();
        assert_eq!(session.ask(0, round), Some(Status::Done));
    }
    let grown = session.nodes[0].memory().saturating_sub(before);
    assert!(grown < 4 << 20, "{grown} bytes more after 180 links");
    let ended = session.nodes[0].logged("a link ended") + session.nodes[0].logged("broke the protocol");
    assert_eq!(ended, 180, "each of them was up");
}

#[test]
fn a_silent_connection_is_closed_after_its_timeout() {
    let session = root();
    let silent = connect(session.address(0));
    let (_, first) = first_record(&TRUE);
    let mut slow = connect(session.address(0));
    let greeted = shake_hands(session.address(0), &TRUE).expect("the secrets are right");
    // A slow trickle of bytes is no greeting either.
    let slow_one = std::thread::spawn(move || {
        let done = first.iter().take(20).position(|byte| {
            std::thread::sleep(Duration::from_millis(500));
            slow.write_all(&[*byte]).is_err()
        });
        assert!(done.is_some(), "20 bytes were accepted, one after another");
    });
    assert_eq!(rest(&silent), b"");
    rest(&greeted.stream);
    slow_one.join().unwrap();
    assert_eq!(session.nodes[0].logged("was silent"), 1, "{}", session.nodes[0].log());
}

#[test]
fn closed_connections_leave_nothing() {
    let session = root();
    let Some(before) = session.nodes[0].descriptors() else {
        return println!("skipped: this user may not count another process's descriptors");
    };
    for _ in 0..200 {
        drop(connect(session.address(0)));
        let stream = connect(session.address(0));
        stream.shutdown(Shutdown::Both).unwrap();
    }
    eventually("the end of closed connections", || session.nodes[0].descriptors() == Some(before));
    assert!(session.nodes[0].logged("refused") <= 3, "{}", session.nodes[0].log());
}
