//! Tests of streams over several connections, on loopback addresses that stand for interfaces.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::stream::RailStream;

const WAIT_MAX: Duration = Duration::from_secs(10);

/// Listeners on several addresses, and the connections that a stream makes there.
struct Far {
    listeners: Vec<TcpListener>,
}

impl Far {
    fn new(count: u8) -> Far {
        let listen = |number| TcpListener::bind((std::net::Ipv4Addr::new(127, 9, number, 1), 0)).unwrap();
        Far { listeners: (0..count).map(listen).collect() }
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().map(|listener| listener.local_addr().unwrap()).collect()
    }

    /// Accepts the connections of a stream, and reads their prefaces.
    fn accept(&self) -> (Vec<TcpStream>, Vec<[u8; 18]>) {
        let accept = |listener: &TcpListener| {
            let (mut socket, _) = listener.accept().unwrap();
            let mut preface = [0; 18];
            socket.read_exact(&mut preface).unwrap();
            socket.set_nonblocking(true).unwrap();
            (socket, preface)
        };
        self.listeners.iter().map(accept).unzip()
    }
}

fn dial(addresses: &[SocketAddr]) -> RailStream {
    let pairs: Vec<_> = addresses.iter().map(|address| (None, *address)).collect();
    RailStream::dial(&pairs, 77, false).unwrap()
}

fn await_connected(stream: &mut RailStream) {
    let since = Instant::now();
    while !stream.is_connected().unwrap() {
        assert!(since.elapsed() < WAIT_MAX, "no connection");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn pair(count: u8) -> (RailStream, RailStream) {
    let far = Far::new(count);
    let mut near = dial(&far.addresses());
    await_connected(&mut near);
    let (sockets, prefaces) = far.accept();
    for (index, preface) in (0..).zip(&prefaces) {
        assert_eq!((preface[0], preface[16], preface[17]), (77, index, count));
    }
    (near, RailStream::accepted(sockets.into_iter().map(OwnedFd::from)))
}

fn or_none(result: io::Result<usize>) -> usize {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        result => result.unwrap(),
    }
}

/// Sends bytes while the other end reads now and then. Returns what arrives.
fn send(from: &mut RailStream, to: &mut RailStream, bytes: &[u8], piece: usize) -> Vec<u8> {
    let (mut sent, mut received, mut room) = (0, Vec::new(), vec![0; piece]);
    let since = Instant::now();
    while received.len() < bytes.len() {
        assert!(since.elapsed() < WAIT_MAX, "{sent} sent, {} received", received.len());
        while sent < bytes.len() {
            match or_none(from.write(&bytes[sent..])) {
                0 => break,
                count => sent += count,
            }
        }
        let count = or_none(to.read(&mut room));
        received.extend_from_slice(&room[..count]);
    }
    received
}

#[test]
fn bytes_arrive_in_order_both_ways() {
    for (count, piece) in [(1, 1000), (2, 70_000), (3, 17)] {
        let (mut near, mut far) = pair(count);
        let length = if piece < 100 { 100_000 } else { 12_000_000 };
        let bytes: Vec<u8> = (0..length as u32).map(|n| (n ^ n >> 8 ^ n >> 16) as u8).collect();
        assert!(send(&mut near, &mut far, &bytes, piece) == bytes, "{count} connections, {piece} bytes");
        assert!(send(&mut far, &mut near, &bytes[..length / 2], piece) == bytes[..length / 2]);
        drop(near);
        let since = Instant::now();
        let end = loop {
            match far.read(&mut [0; 8]) {
                // A connection's end may be on its way.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => assert!(since.elapsed() < WAIT_MAX),
                result => break result.unwrap(),
            }
        };
        assert_eq!(end, 0, "the end");
    }
}

#[test]
fn a_connection_that_is_not_made_is_left_out() {
    let far = Far::new(1);
    let closed = TcpListener::bind("127.9.1.1:0").unwrap().local_addr().unwrap();
    let mut near = dial(&[far.addresses()[0], closed]);
    await_connected(&mut near);
    assert_eq!(near.sockets().count(), 1);
    assert!(near.take_failures().is_empty(), "the system chose this interface");
    let (_sockets, prefaces) = far.accept();
    assert_eq!((prefaces[0][16], prefaces[0][17]), (0, 1));
    let mut none = dial(&[closed, closed]);
    let since = Instant::now();
    while none.is_connected().is_ok() {
        assert!(since.elapsed() < WAIT_MAX);
    }
}

#[test]
fn a_peer_that_is_starting_is_dialled_again() {
    let far = Far::new(1);
    let starting = TcpListener::bind("127.9.1.1:0").unwrap().local_addr().unwrap();
    let pairs = [(None, starting), (None, far.addresses()[0])];
    let mut near = RailStream::dial(&pairs, 77, true).unwrap();
    let since = Instant::now();
    let error = loop {
        match near.is_connected() {
            Ok(is_connected) => assert!(!is_connected && since.elapsed() < WAIT_MAX),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    assert!(near.is_partly_refused());
    drop(near);
    let (mut socket, _) = far.listeners[0].accept().unwrap();
    assert_eq!(socket.read(&mut [0; 18]).unwrap(), 0, "no preface");
    let mut none = RailStream::dial(&pairs[..1], 77, true).unwrap();
    while none.is_connected().is_ok() {
        assert!(since.elapsed() < WAIT_MAX);
    }
    assert!(!none.is_partly_refused(), "it does not listen at all yet");
}

#[test]
fn an_impossible_segment_ends_the_stream() {
    for length in [0u32, 65_537, u32::MAX] {
        let far = Far::new(1);
        let mut near = dial(&far.addresses());
        await_connected(&mut near);
        let (mut sockets, _) = far.accept();
        sockets[0].write_all(&[&0u32.to_le_bytes()[..], &length.to_le_bytes()].concat()).unwrap();
        let since = Instant::now();
        let error = loop {
            match near.read(&mut [0; 8]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => assert!(since.elapsed() < WAIT_MAX),
                result => break result.unwrap_err(),
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{length}");
    }
}

#[test]
fn a_segment_that_is_not_its_turn_waits() {
    let far = Far::new(2);
    let mut near = dial(&far.addresses());
    await_connected(&mut near);
    let (mut sockets, _) = far.accept();
    let segment =
        |number: u32, text: &[u8]| [&number.to_le_bytes()[..], &(text.len() as u32).to_le_bytes(), text].concat();
    sockets[1].write_all(&segment(1, b"second")).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let mut room = [0; 32];
    assert_eq!(or_none(near.read(&mut room)), 0);
    sockets[0].write_all(&segment(0, b"first, ")).unwrap();
    let (since, mut filled) = (Instant::now(), 0);
    while filled < 13 {
        assert!(since.elapsed() < WAIT_MAX);
        filled += or_none(near.read(&mut room[filled..]));
    }
    assert_eq!(&room[..13], b"first, second");
}
