//! Thousands of connections, while peers and processes are still served.

use std::collections::VecDeque;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use headwater_abi::client::Status;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::peer::{Secrets, TRUE, first_record};
use crate::process::{FILES, Session};
use crate::support::eventually;
use crate::wire::{Fate, Seen, Wire};

/// How many connections are made of each kind, at least.
const CONNECTIONS_MIN: usize = 1000;
/// How much memory the attacked daemon may gain for each, in bytes.
const MEMORY_BYTES_MAX: u64 = 512;
/// Connections of each kind that stay open on this side.
const OPEN_MAX: usize = 150;
/// How many more descriptors the daemon may have: for connections without a greeting (64), for clients,
/// and for files that are read and sent.
const DESCRIPTORS_MAX: usize = 64 + 16;

/// Connects and sends `first`, over and over.
fn connect_again_and_again(address: SocketAddr, first: &[u8], made: &AtomicUsize, is_over: &dyn Fn() -> bool) {
    let mut open = VecDeque::new();
    while !is_over() {
        // While too many wait already, the kernel refuses more.
        let Ok(mut stream) = TcpStream::connect(address) else { continue };
        let _ = stream.write_all(first);
        made.fetch_add(1, Ordering::SeqCst);
        open.push_back(stream);
        if open.len() > OPEN_MAX {
            open.pop_front();
        }
    }
}

/// Makes `count` connections of each kind, and more until `meanwhile` is done; returns their number.
fn flood(address: SocketAddr, kinds: &[Vec<u8>], count: usize, meanwhile: impl FnOnce()) -> usize {
    let (made, is_done) = ([const { AtomicUsize::new(0) }; 4], AtomicBool::new(false));
    std::thread::scope(|scope| {
        for (first, made) in kinds.iter().zip(&made) {
            let is_done = &is_done;
            scope.spawn(move || {
                let is_over = || made.load(Ordering::SeqCst) >= count && is_done.load(Ordering::SeqCst);
                connect_again_and_again(address, first, made, &is_over);
            });
        }
        let result = catch_unwind(AssertUnwindSafe(meanwhile));
        is_done.store(true, Ordering::SeqCst);
        result.unwrap_or_else(|panic| resume_unwind(panic));
    });
    made.iter().map(|made| made.load(Ordering::SeqCst)).sum()
}

/// Starts a root and its child; returns the child's first record too, and a function that cuts their link.
fn pair() -> (Session, Wire, Arc<Mutex<Vec<u8>>>, Arc<AtomicBool>) {
    let (recorded, is_cut) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let (recorder, cutter) = (Arc::clone(&recorded), Arc::clone(&is_cut));
    let mut session = Session::prepare(2);
    let root = session.address(0);
    let decide = move |seen: Seen, record: Vec<u8>| {
        if seen.is_childs && seen.number == 0 {
            recorder.lock().unwrap().clone_from(&record);
        }
        if cutter.swap(false, Ordering::SeqCst) { Fate::Ends(Vec::new()) } else { Fate::Goes(record) }
    };
    let wire = Wire::new(move |_| root, decide);
    session.start(2, |config| {
        if config.rank == 1 {
            config.peers[0] = wire.address;
        }
    });
    (session, wire, recorded, is_cut)
}

/// Measures until the value is stable: a node's work after its answer is done then.
fn at_rest(measure: impl Fn() -> Option<usize>) -> Option<usize> {
    let (mut last, mut since) = (measure(), Instant::now());
    while since.elapsed() < Duration::from_millis(300) {
        std::thread::sleep(Duration::from_millis(5));
        let now = measure();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    last
}

#[test]
fn a_flood_of_connections_costs_and_disturbs_nothing() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let (session, wire, recorded, is_cut) = pair();
    assert_eq!(session.ask(1, 0), Some(Status::Done));
    let wrong = first_record(&Secrets { key: [9; 32], ..TRUE }).1;
    // Nothing; garbage; a wrong key; and a recorded first record of a good peer.
    let kinds = [Vec::new(), vec![255; 4096], wrong, recorded.lock().unwrap().clone()];
    let (root, node) = (session.address(0), &session.nodes[0]);
    let descriptors = at_rest(|| node.descriptors());
    // Allocations that happen only once have happened after this.
    flood(root, &kinds, 100, || ());
    let memory = node.memory();
    let mut descriptors_max = 0;
    let connections = flood(root, &kinds, CONNECTIONS_MIN, || {
        for number in 1..100 {
            assert_eq!(session.ask(number % 2, number), Some(Status::Done), "f{number}");
            descriptors_max = descriptors_max.max(node.descriptors().unwrap_or(0));
        }
        assert_eq!(wire.connections(), 1, "the link stays up throughout");
    });
    // A good peer is accepted as well. Only replays of a recorded first record can delay it.
    let connections = connections
        + flood(root, &kinds[..3], 100, || {
            is_cut.store(true, Ordering::SeqCst);
            let number = AtomicUsize::new(100);
            eventually("a new link", || {
                let number = number.fetch_add(1, Ordering::SeqCst).min(FILES - 1);
                session.ask(1, number) == Some(Status::Done) && wire.connections() > 1
            });
        });
    let grown = node.memory().saturating_sub(memory);
    println!("{connections} connections: {grown} bytes more, {descriptors_max} descriptors after {descriptors:?}");
    let bytes_max = connections as u64 * MEMORY_BYTES_MAX;
    assert!(grown <= bytes_max, "{grown} bytes more after {connections} connections");
    match descriptors {
        None => println!("skipped: this user may not count another process's descriptors"),
        Some(before) => assert!(descriptors_max <= before + DESCRIPTORS_MAX, "{descriptors_max} after {before}"),
    }
    let log = node.log();
    for kind in ["speaks no Noise", "does not know the session's key", "there are more that might", "was altered"] {
        assert!(node.logged(kind) <= 1, "{kind}: {log}");
    }
    assert!((3..=8).contains(&node.logged("refused")), "{log}");
    eventually("the end of the flood's connections", || {
        node.descriptors().is_none_or(|now| now <= descriptors.unwrap_or(0))
    });
}
