//! Plain TCP on the cluster's links and this machine: the measure of everything else.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use headwater_cluster::Node;
use rustix::event::{PollFd, PollFlags, poll};

use crate::harness::nodes::in_network_of;

/// Bytes of one write.
const PIECE_BYTES: usize = 64 << 10;

/// A connection between two nodes: the end at `from`, and the end at `to`.
pub(super) fn connection(from: &Node, to: &Node) -> (TcpStream, TcpStream) {
    connection_over(from, to, 0)
}

/// The same over the interface with this number.
fn connection_over(from: &Node, to: &Node, interface: usize) -> (TcpStream, TcpStream) {
    let address = to.address_on(interface);
    let listener = in_network_of(to, || TcpListener::bind((address, 0))).expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let near = in_network_of(from, || TcpStream::connect(address)).unwrap_or_else(|e| panic!("{}: {e}", to.name));
    let (far, _) = listener.accept().expect("a peer has connected");
    for stream in [&near, &far] {
        stream.set_nodelay(true).expect("an open socket");
    }
    (near, far)
}

/// Seconds of plain transfers of so many bytes, between each of these pairs of nodes at once, until the last byte is
/// received.
pub(super) fn transfers(pairs: &[(&Node, &Node)], bytes: u64) -> f64 {
    let ends = pairs.iter().map(|(from, to)| (connection(from, to), io::sink())).collect();
    transfers_between(ends, bytes)
}

/// The same with received bytes written to files in the receivers' RAM disks.
pub(super) fn retained_transfers(pairs: &[(&Node, &Node)], bytes: u64) -> f64 {
    retained_transfers_over(pairs, 1, bytes)
}

/// The same with the bytes of each pair divided among so many interfaces.
pub(super) fn retained_transfers_over(pairs: &[(&Node, &Node)], interfaces: usize, bytes: u64) -> f64 {
    let file = |node: &Node, number: usize| format!("/proc/{}/root/dev/shm/received{number}", node.holder.pid);
    let all = || pairs.iter().flat_map(|(from, to)| (0..interfaces).map(move |number| (*from, *to, number)));
    let retained = |to: &Node, number| File::create(file(to, number)).expect("a RAM disk has room");
    let ends = all().map(|(from, to, number)| (connection_over(from, to, number), retained(to, number))).collect();
    let seconds = transfers_between(ends, bytes / interfaces as u64);
    all().for_each(|(_, to, number)| drop(std::fs::remove_file(file(to, number))));
    seconds
}

/// Seconds of transfers of so many bytes over each of these connections at once, into these sinks.
fn transfers_between<W: Write + Send>(ends: Vec<((TcpStream, TcpStream), W)>, bytes: u64) -> f64 {
    let started = Instant::now();
    thread::scope(|scope| {
        for ((mut near, mut far), mut sink) in ends {
            scope.spawn(move || {
                let piece = [0x5e; PIECE_BYTES];
                let mut left = bytes;
                while left > 0 {
                    let length = left.min(PIECE_BYTES as u64);
                    near.write_all(&piece[..length as usize]).expect("the peer reads");
                    left -= length;
                }
            });
            scope.spawn(move || {
                let mut piece = vec![0; PIECE_BYTES];
                let mut received = 0;
                while received < bytes {
                    let length = far.read(&mut piece).expect("the peer writes");
                    assert!(length > 0, "the peer has ended");
                    sink.write_all(&piece[..length]).expect("there is room");
                    received += length as u64;
                }
            });
        }
    });
    started.elapsed().as_secs_f64()
}

/// Seconds of round trips of a small message between each of these pairs of nodes, `rounds` for each. All
/// pairs are at it at once, each end in a thread that waits as a daemon does: for readiness first.
pub(super) fn round_trips(pairs: &[(&Node, &Node)], rounds: usize, bytes: usize) -> Vec<f64> {
    let ends: Vec<_> = pairs.iter().map(|(from, to)| connection(from, to)).collect();
    thread::scope(|scope| {
        let mut pings = Vec::new();
        for (mut near, mut far) in ends {
            scope.spawn(move || {
                let mut message = vec![0; bytes];
                while await_readable(&far) && far.read_exact(&mut message).is_ok() {
                    if far.write_all(&message).is_err() {
                        return;
                    }
                }
            });
            pings.push(scope.spawn(move || {
                let mut message = vec![0; bytes];
                let mut trips = Vec::with_capacity(rounds);
                for _ in 0..rounds {
                    let started = Instant::now();
                    near.write_all(&message).expect("the peer reads");
                    await_readable(&near);
                    near.read_exact(&mut message).expect("the peer writes");
                    trips.push(started.elapsed().as_secs_f64());
                }
                trips
            }));
        }
        pings.into_iter().flat_map(|ping| ping.join().expect("it only measures")).collect()
    })
}

fn await_readable(stream: &TcpStream) -> bool {
    poll(&mut [PollFd::new(stream, PollFlags::IN)], None).is_ok()
}
