//! A link's rate. The device counts the bytes over a time that is measured beside them, so a slow machine makes both
//! smaller together; the limit above is the promised one.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use headwater_cluster::{Delay, Options, Rate};

use crate::cluster;

/// Sends to two peers or receives from them, and prints what its device carried in that direction from when both ran:
/// bytes and seconds.
const HUB: &str = "
import socket, sys, threading, time
direction = sys.argv[1]
def carried():
    fields = next(line for line in open('/proc/net/dev') if 'eth0:' in line).split(':')[1].split()
    return int(fields[0 if direction == 'in' else 8])
server = socket.create_server(('', 7000))
print('ready', flush=True)
peers = [server.accept()[0] for _ in range(2)]
def work(peer):
    while True:
        peer.recv(1 << 16) if direction == 'in' else peer.sendall(bytes(1 << 16))
start, before = time.monotonic(), carried()
for peer in peers:
    threading.Thread(target=work, args=[peer], daemon=True).start()
time.sleep(1)
after, end = carried(), time.monotonic()
print(after - before, end - start, flush=True)
";
const PEER: &str = "
import socket, sys
hub = socket.create_connection((sys.argv[2], 7000))
while True:
    hub.sendall(bytes(1 << 16)) if sys.argv[1] == 'in' else hub.recv(1 << 16)
";

pub fn check(direction: &str, delay: Option<Delay>) {
    let rate: Rate = "40mbit".parse().unwrap();
    let Some(cluster) = cluster(3, &Options { rate: Some(rate), delay, ..Options::default() }) else { return };
    let mut hub = cluster.on(1).command("python3").args(["-c", HUB, direction]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(hub.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let peer = |number: usize| {
        let mut command = cluster.on(number).command("python3");
        command.args(["-c", PEER, direction, "node001"]).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut peers = [peer(2), peer(3)];
    let line = lines.next().unwrap().unwrap();
    for child in peers.iter_mut().chain([&mut hub]) {
        let _ = child.kill();
        child.wait().unwrap();
    }
    let (bytes, seconds) = line.split_once(' ').unwrap();
    let (bytes, seconds): (f64, f64) = (bytes.parse().unwrap(), seconds.parse().unwrap());
    let promised = rate.bytes_per_second() as f64 * seconds;
    // At the start a bucket is full, and a queue may be.
    let at_once = 2.0 * rate.burst_bytes() as f64 + rate.bytes_per_second() as f64 / 20.0;
    println!("{direction}: {bytes} bytes in {seconds} s, {:.3} of the rate", bytes / promised);
    assert!(bytes <= 1.05 * promised + at_once, "{bytes} bytes in {seconds} s: more than {rate} carries");
    assert!(bytes >= promised / 20.0, "{bytes} bytes in {seconds} s: {rate} carries more");
}

#[test]
fn a_node_sends_no_more_than_its_link_carries() {
    check("out", None);
}

#[test]
fn a_node_receives_no_more_than_its_link_carries() {
    check("in", None);
}
