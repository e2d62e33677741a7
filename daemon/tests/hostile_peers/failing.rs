//! Daemons that are killed, stopped, or send altered content.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use headwater_abi::client::Status;
use rustix::process::{Pid, Signal, kill_process};

use crate::liar::Liar;
use crate::process::{FILES, Session};
use crate::support::{CHAIN, TEST_TIMEOUT, eventually};
use crate::wire::{Fate, Seen, Wire};

/// Bytes of the large file, and of its chunks that may be in transit when a daemon dies.
const LARGE_BYTES: usize = 20 << 20;
const IN_FLIGHT_BYTES: u64 = 4 << 20;

/// Returns the large file's content.
fn content() -> Vec<u8> {
    (0..LARGE_BYTES as u32).map(|n| (n / 5).wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect()
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

/// A chain of `ranks` daemons, of which the last dials each other at the address that `to` returns.
fn chain(ranks: u32, to: impl Fn(&Session, u32) -> SocketAddr) -> Session {
    let mut session = Session::prepare(ranks);
    session.cluster.write("large", &content());
    let addresses: Vec<SocketAddr> = (0..ranks).map(|rank| to(&session, rank)).collect();
    session.start(ranks as usize, |config| {
        config.shape = CHAIN;
        if config.rank == ranks - 1 {
            config.peers.clone_from(&addresses);
        }
    });
    session
}

/// Counts the bytes that a wire carries from a parent, and forwards them.
fn counted(bytes: &Arc<AtomicU64>) -> impl FnMut(Seen, Vec<u8>) -> Fate + Send + use<> {
    let bytes = Arc::clone(bytes);
    move |seen, record| {
        if !seen.is_childs {
            bytes.fetch_add(record.len() as u64, Ordering::SeqCst);
        }
        Fate::Goes(record)
    }
}

#[test]
fn a_child_that_loses_its_parent_receives_the_rest_from_the_next() {
    let (killed, before, after) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU64::new(0)), Arc::default());
    let session = chain(4, |session, rank| {
        let address = session.address(rank as usize);
        match rank {
            1 => Wire::new(move |_| address, counted(&after)).address,
            2 => {
                let (killed, so_far, mut count) = (Arc::clone(&killed), Arc::clone(&before), counted(&before));
                let decide = move |seen, record| {
                    if so_far.load(Ordering::SeqCst) > LARGE_BYTES as u64 / 3 {
                        let pid = killed.swap(0, Ordering::SeqCst);
                        Some(pid).filter(|pid| *pid > 0).into_iter().for_each(|pid| signal(pid, Signal::KILL));
                    }
                    count(seen, record)
                };
                Wire::new(move |_| address, decide).address
            }
            _ => address,
        }
    });
    killed.store(session.nodes[2].id(), Ordering::SeqCst);
    let path = session.cluster.shared("large");
    assert_eq!(session.nodes[3].ask(&path), Some(Status::Done));
    assert!(std::fs::read(session.nodes[3].copy(&path)).unwrap() == content());
    assert_eq!(killed.load(Ordering::SeqCst), 0, "it was killed during the transfer");
    let (before, after) = (before.load(Ordering::SeqCst), after.load(Ordering::SeqCst));
    println!("{before} bytes arrived from the parent, and {after} from its parent");
    assert!(before > LARGE_BYTES as u64 / 3 && after > LARGE_BYTES as u64 / 4, "{before} and {after}");
    assert!(before + after < LARGE_BYTES as u64 + IN_FLIGHT_BYTES, "sent twice: {before} and {after}");
    assert_eq!(session.ask(3, 1), Some(Status::Done));
}

#[test]
fn a_hanging_parent_is_bypassed_until_it_continues() {
    let session = chain(4, |session, rank| session.address(rank as usize));
    assert_eq!(session.ask(3, 0), Some(Status::Done));
    signal(session.nodes[1].id(), Signal::STOP);
    for number in 1..20 {
        assert_eq!(session.ask(3, number), Some(Status::Done), "f{number}");
    }
    assert_eq!(session.nodes[1].logged("a link ended"), 0, "it does nothing");
    signal(session.nodes[1].id(), Signal::CONT);
    eventually("its return", || session.nodes[1].logged("linked") > 2);
    for number in 20..40 {
        assert_eq!(session.ask(3, number), Some(Status::Done), "f{number}");
    }
}

#[test]
fn wrong_content_is_found_out_and_fetched_from_elsewhere() {
    let liar = Liar::prepare();
    let session = chain(3, |session, rank| match rank {
        1 => liar.between(session.address(0), 1, 3),
        rank => session.address(rank as usize),
    });
    // The true rank 1 would displace the altering relay at the root again and again.
    signal(session.nodes[1].id(), Signal::KILL);
    // On a busy machine it may seem dead at first and is bypassed: the files last as long as the test waits.
    let number = AtomicUsize::new(0);
    eventually("a lie", || {
        assert_eq!(session.ask(2, number.fetch_add(1, Ordering::SeqCst).min(FILES - 1)), Some(Status::Done));
        std::thread::sleep(TEST_TIMEOUT / FILES as u32);
        liar.lies() > 0
    });
    let path = session.cluster.shared("large");
    assert_eq!(session.nodes[2].ask(&path), Some(Status::Done));
    assert!(std::fs::read(session.nodes[2].copy(&path)).unwrap() == content());
    assert!(session.nodes[2].logged("damaged content") >= 1, "{}", session.nodes[2].log());
}
