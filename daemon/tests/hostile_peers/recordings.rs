//! Bytes of a good connection, replayed, sent back, changed or cut off.

use std::io::Write;
use std::net::{Shutdown, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex};

use headwater_abi::client::Status;
use headwater_daemon::LinkProtection;

use crate::peer::{connect, read_record, rest};
use crate::process::Session;
use crate::support::eventually;
use crate::wire::{Fate, Seen, Wire};

/// Starts a root and its child, with links of this protection and a wire between them that decides about records.
fn pair(
    protection: LinkProtection,
    to: impl Fn(&Session, usize) -> SocketAddr,
    decide: impl FnMut(Seen, Vec<u8>) -> Fate + Send + 'static,
) -> (Session, Wire) {
    let mut session = Session::prepare(2);
    let ways: Vec<SocketAddr> = (0..3).map(|connection| to(&session, connection)).collect();
    let wire = Wire::new(move |connection| ways[connection.min(2)], decide);
    session.start(2, |config| {
        config.link_protection = protection;
        if config.rank == 1 {
            config.peers[0] = wire.address;
        }
    });
    (session, wire)
}

fn to_root(session: &Session, _: usize) -> SocketAddr {
    session.address(0)
}

#[test]
fn a_replayed_connection_is_refused() {
    LinkProtection::ALL.into_iter().for_each(replay);
}

fn replay(protection: LinkProtection) {
    let recorded = Arc::new(Mutex::new([Vec::new(), Vec::new()]));
    let recorder = Arc::clone(&recorded);
    let (session, wire) = pair(protection, to_root, move |seen, record| {
        recorder.lock().unwrap()[usize::from(seen.is_childs)].extend_from_slice(&record);
        Fate::Goes(record)
    });
    for number in 0..20 {
        assert_eq!(session.ask(1, number), Some(Status::Done));
    }
    let [parents, childs] = recorded.lock().unwrap().clone();
    assert!(childs.len() > 500 && parents.len() > 500, "{} {}", childs.len(), parents.len());
    let mut answers = Vec::new();
    for round in 0..20 {
        // The child's part: the handshake's first record is answered, with new keys.
        let mut stream = connect(session.address(0));
        let _ = stream.write_all(&childs).and_then(|()| stream.shutdown(Shutdown::Write));
        answers.push(rest(&stream));
        // The parent's part, replayed to either.
        for rank in 0..2 {
            let mut stream = connect(session.address(rank));
            let _ = stream.write_all(&parents).and_then(|()| stream.shutdown(Shutdown::Write));
            assert_eq!(rest(&stream), b"", "replayed to rank {rank}");
        }
        assert_eq!(session.ask(1, 20 + round), Some(Status::Done), "the child's link stays up");
    }
    let longest = answers.iter().map(Vec::len).max().unwrap_or(0);
    assert!(longest < 200, "a handshake's answer and a greeting at most, not {longest} bytes");
    answers.sort();
    answers.dedup();
    let answered = answers.iter().filter(|answer| !answer.is_empty()).count();
    assert!(answered >= answers.len() - 1, "no answer is given twice");
    assert_eq!(wire.connections(), 1, "the good link stays");
    assert_eq!(session.nodes[0].logged("a record of the peer was altered"), 1, "{}", session.nodes[0].log());
    assert_eq!(session.nodes[0].logged("a link ended"), 0);
}

#[test]
fn own_bytes_sent_back_mean_nothing() {
    LinkProtection::ALL.into_iter().for_each(send_back);
}

fn send_back(protection: LinkProtection) {
    // To the child: first its own records, then itself as its parent, and then its parent.
    let to = |session: &Session, connection: usize| session.address(usize::from(connection == 1));
    let (session, wire) = pair(protection, to, |seen, record| match (seen.connection, seen.is_childs) {
        (0, true) => Fate::Returns(record),
        _ => Fate::Goes(record),
    });
    assert_eq!(wire.connections(), 3);
    for why in ["does not know the session's key", "its rank is no neighbour's"] {
        assert_eq!(session.nodes[1].logged(why), 1, "{}", session.nodes[1].log());
    }
    assert_eq!(session.ask(1, 0), Some(Status::Done));
}

#[test]
fn a_roots_own_bytes_mean_nothing_to_it() {
    LinkProtection::ALL.into_iter().for_each(send_back_to_root);
}

fn send_back_to_root(protection: LinkProtection) {
    let first = Arc::new(Mutex::new(Vec::new()));
    let recorder = Arc::clone(&first);
    let (session, _wire) = pair(protection, to_root, move |seen, record| {
        if seen.is_childs && seen.number == 0 {
            *recorder.lock().unwrap() = record.clone();
        }
        Fate::Goes(record)
    });
    for way in 0..2 {
        let mut stream = connect(session.address(0));
        stream.write_all(&first.lock().unwrap()).unwrap();
        let answer = read_record(&mut stream).expect("a first record is answered");
        let greeting = read_record(&mut stream).expect("a greeting follows");
        let outcome_text = if way == 0 { [answer, greeting].concat() } else { greeting };
        let _ = stream.write_all(&outcome_text).and_then(|()| stream.shutdown(Shutdown::Write));
        assert_eq!(rest(&stream), b"");
    }
    assert_eq!(session.nodes[0].logged("a link ended"), 0, "{}", session.nodes[0].log());
    assert_eq!(session.ask(1, 0), Some(Status::Done));
}

#[test]
fn the_wire_shows_what_is_authenticated_alone() {
    for (protection, is_shown) in [(LinkProtection::Encrypt, false), (LinkProtection::Authenticate, true)] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let recorder = Arc::clone(&seen);
        let (session, _wire) = pair(protection, to_root, move |_, record| {
            recorder.lock().unwrap().extend_from_slice(&record);
            Fate::Goes(record)
        });
        assert_eq!(session.ask(1, 7), Some(Status::Done));
        let name = session.cluster.shared("f7");
        let name = name.as_os_str().as_bytes();
        assert_eq!(seen.lock().unwrap().windows(name.len()).any(|bytes| bytes == name), is_shown, "{protection}");
    }
}

/// The record that is changed: the greetings and their answers precede it.
const NUMBER: usize = 6;

#[test]
fn a_tampered_connection_is_closed_and_replaced() {
    tamper(LinkProtection::Encrypt);
}

#[test]
fn a_tampered_connection_is_also_closed_if_it_is_authenticated_alone() {
    tamper(LinkProtection::Authenticate);
}

fn tamper(protection: LinkProtection) {
    type Change = fn(&mut Vec<Vec<u8>>, Vec<u8>) -> Fate;
    let changes: [(&str, Change); 7] = [
        ("said again", |earlier, record| Fate::Goes([record, earlier[NUMBER - 1].clone()].concat())),
        ("the first ones replayed", |earlier, record| Fate::Goes([earlier[2].clone(), record].concat())),
        ("left out", |_, _| Fate::Goes(Vec::new())),
        ("a bit of the content", |_, record| Fate::Goes(flipped(record, 40))),
        ("a bit of the tag", |_, record| Fate::Goes(flipped(record, usize::MAX))),
        ("cut off", |_, record| Fate::Ends(record[..record.len() - 1].to_vec())),
        ("longer", |_, mut record| {
            record.push(0);
            Fate::Goes(record)
        }),
    ];
    for (what, change) in changes {
        for of_child in [true, false] {
            let mut earlier = Vec::new();
            let (session, wire) = pair(protection, to_root, move |seen, record| {
                if seen.connection > 0 || seen.is_childs != of_child {
                    return Fate::Goes(record);
                }
                earlier.push(record.clone());
                if seen.number == NUMBER { change(&mut earlier, record) } else { Fate::Goes(record) }
            });
            // Requests without a link are served from the source.
            for number in 0..40 {
                let status = session.ask(1, number);
                assert!(matches!(status, Some(Status::Done | Status::Fallback)), "{protection}, {what}: {status:?}");
            }
            eventually("a new link", || wire.connections() == 2 && session.ask(1, 100) == Some(Status::Done));
            let ended = session.nodes[0].logged("a link ended") + session.nodes[1].logged("a link ended");
            assert!(ended >= 1, "{protection}, {what}: {}", session.nodes[0].log());
        }
    }
}

/// Returns the record with one bit of the byte at `at`, or of its last one, changed.
fn flipped(mut record: Vec<u8>, at: usize) -> Vec<u8> {
    let at = at.clamp(2, record.len() - 1);
    record[at] ^= 0x10;
    record
}
