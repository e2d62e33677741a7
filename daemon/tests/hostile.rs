//! Unauthenticated peers, garbage, and ends of all kinds.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use headwater_abi::client::{Status, Want};
use headwater_daemon::{Branching, SessionId, SessionKey, Shape};
use support::{Cluster, TEST_TIMEOUT, eventually, final_status};

/// Sends these bytes to the first daemon's TCP socket and returns the reply.
fn answer_to(cluster: &Cluster, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(cluster.addresses[0]).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    // A refusal may arrive before everything is sent.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

fn rss() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * rustix::param::page_size() as u64
}

#[test]
fn garbage_from_the_network_is_refused() {
    let mut cluster = Cluster::prepare();
    cluster.write("a", b"x");
    cluster.run(1, |_| ());
    let before = rss();
    for round in 0..50u8 {
        assert_eq!(answer_to(&cluster, b"GET / HTTP/1.1\r\n\r\n"), b"");
        assert_eq!(answer_to(&cluster, &[255; 4096]), b"");
        let handshake: Vec<u8> = [0, 48].into_iter().chain((0..48).map(|n| n ^ round)).collect();
        assert_eq!(answer_to(&cluster, &handshake), b"");
    }
    assert!(rss() < before + (8 << 20), "memory grows with garbage");
    assert_eq!(cluster.ask(0, "a", Want::WHOLE), Status::Done, "the daemon still serves");
    cluster.stop();
}

#[test]
fn silent_unauthenticated_peers_are_displaced() {
    let mut cluster = Cluster::prepare();
    cluster.write("a", b"x");
    cluster.run(1, |_| ());
    let mut streams: Vec<TcpStream> = (0..80).map(|_| TcpStream::connect(cluster.addresses[0]).unwrap()).collect();
    streams[0].set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    assert_eq!(streams[0].read(&mut [0; 8]).unwrap(), 0, "the oldest is closed for a newer one");
    assert_eq!(cluster.ask(0, "a", Want::WHOLE), Status::Done);
    cluster.stop();
}

#[test]
fn another_key_or_session_gets_nothing() {
    for change in [
        (|config| config.key = SessionKey([8; 32])) as fn(&mut headwater_daemon::Config),
        |config| config.session = SessionId(9),
        |config| config.shape = Shape::Single(Branching::KAry(2)),
    ] {
        let mut cluster = Cluster::prepare();
        cluster.write("a", b"x");
        let mut other = Cluster::prepare();
        cluster.run(2, |_| ());
        // A daemon whose parent is the first session's root.
        let root = cluster.addresses[0];
        other.start(1, 2, |config| {
            config.peers = vec![root, config.peers[1]];
            change(config);
        });
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert_eq!(cluster.ask(1, "a", Want::WHOLE), Status::Done, "the true child's link stays up");
        cluster.stop();
    }
}

#[test]
fn garbage_from_processes_is_survived() {
    let mut cluster = Cluster::prepare();
    cluster.write("a", b"x");
    cluster.run(1, |_| ());
    let socket = cluster.nodes[0].dir.socket();
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0; 5000],
        &[255; 100_000],
        b"HWQ1\xff\xff\xff\xff\0\0\0\0\0\0\0\0\xff\xff\xff\xff\0\0\0\0",
    ] {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        let _ = stream.write_all(garbage);
        assert_eq!(final_status(&mut stream), None);
    }
    // Half a request, and nothing more.
    let mut half = UnixStream::connect(&socket).unwrap();
    half.write_all(b"HWQ1").unwrap();
    drop(cluster.nodes[0].send(&cluster.shared("a"), Want::WHOLE, 1));
    assert_eq!(cluster.ask(0, "a", Want::WHOLE), Status::Done);
    cluster.stop();
}

#[test]
fn waiting_processes_are_notified_when_the_session_ends() {
    let mut cluster = Cluster::prepare();
    rustix::fs::mkfifoat(rustix::fs::CWD, cluster.shared("fifo"), rustix::fs::Mode::RUSR).unwrap();
    cluster.run(1, |_| ());
    // None of it can be served, but the daemon must not hang either.
    assert_eq!(cluster.ask(0, "fifo", Want::ATTR), Status::Done);
    let mut idle = UnixStream::connect(cluster.nodes[0].dir.socket()).unwrap();
    idle.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    eventually("the connection", || cluster.nodes[0].dir.socket().exists());
    cluster.stop();
    assert_ne!(final_status(&mut idle), Some(Status::Done));
}

#[test]
fn losing_its_starter_ends_a_daemon_without_a_trace() {
    let mut cluster = Cluster::prepare();
    cluster.write("a", b"x");
    cluster.run(3, |_| ());
    assert_eq!(cluster.ask(2, "a", Want::WHOLE), Status::Done);
    let table = cluster.nodes[2].dir.table();
    let file = std::fs::File::open(&table).unwrap();
    for node in &mut cluster.nodes {
        assert_eq!(node.orphan(), "", "no report is printed without a reader");
        assert!(!node.dir.path().exists());
    }
    assert!(!cluster.dir.path().join("session").exists(), "the last one removes the session");
    let mut head = [0; 160];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut head, 0).unwrap();
    assert_eq!(head[19 * 8], 2, "the mapped table marks the session's end");
}
