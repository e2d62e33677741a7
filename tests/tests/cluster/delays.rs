//! Links that delay packets, by the kernel or by a thread of this process.

use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use headwater_cluster::{Cluster, Delay, Error, Node, Options, Registry, check};
use headwater_tests::harness::nodes::in_network_of;
use headwater_tests::harness::skipped;

use crate::{await_end, cluster, links, shell};

const TRIPS: usize = 15;
const PORT: u16 = 7001;
/// A datagram to all nodes.
const ALL: Ipv4Addr = Ipv4Addr::new(10, 77, 255, 255);
/// Long enough that a machine that does other things adds little.
const DELAY: &str = "20ms";
/// A datagram that should have arrived has not.
const ARRIVAL_MAX: Duration = Duration::from_secs(20);

fn delayed(rate: Option<&str>) -> Options {
    let rate = rate.map(|rate| rate.parse().unwrap());
    Options { rate, delay: Some(DELAY.parse().unwrap()), ..Options::default() }
}

fn delay() -> Duration {
    DELAY.parse::<Delay>().unwrap().into()
}

/// A socket on the node that receives what is sent to it or to all.
fn socket(node: &Node) -> UdpSocket {
    let socket = in_network_of(node, || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT))).unwrap();
    socket.set_broadcast(true).unwrap();
    socket.set_read_timeout(Some(ARRIVAL_MAX)).unwrap();
    socket
}

fn heard(socket: &UdpSocket) -> String {
    let mut bytes = [0; 64];
    let (length, _) = socket.recv_from(&mut bytes).expect("something arrives");
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

/// The round trips of small messages from one node to another, in order of their length.
fn round_trips(from: &Node, to: &Node) -> Vec<Duration> {
    let (near, far) = (socket(from), socket(to));
    let echo = thread::spawn(move || {
        for _ in 0..=TRIPS {
            let mut bytes = [0; 64];
            let (length, peer) = far.recv_from(&mut bytes).unwrap();
            far.send_to(&bytes[..length], peer).unwrap();
        }
    });
    let mut trips: Vec<Duration> = (0..=TRIPS)
        .map(|number| {
            let started = Instant::now();
            near.send_to(number.to_string().as_bytes(), (to.address, PORT)).unwrap();
            assert_eq!(heard(&near), number.to_string());
            started.elapsed()
        })
        .collect();
    echo.join().unwrap();
    // The first packet was preceded by address requests.
    trips.remove(0);
    trips.sort();
    trips
}

fn check_round_trips(from: &Node, to: &Node) {
    let trips = round_trips(from, to);
    println!("{} to {}: from {:?}, median {:?}", from.name, to.name, trips[0], trips[TRIPS / 2]);
    assert!(trips[0] >= 2 * delay(), "a round trip of {:?}, on links with a delay of {DELAY}", trips[0]);
    assert!(trips[TRIPS / 2] <= 3 * delay(), "half of the round trips take {:?} and more", trips[TRIPS / 2]);
}

#[test]
fn a_packet_is_delayed_once_in_each_direction() {
    let Some(cluster) = cluster(3, &delayed(None)) else { return };
    check_round_trips(cluster.on(1), cluster.on(2));
    check_round_trips(cluster.on(3), cluster.on(1));
}

#[test]
fn packets_arrive_in_order() {
    let Some(cluster) = cluster(2, &delayed(None)) else { return };
    let [near, far] = [1, 2].map(|number| socket(cluster.on(number)));
    for number in 0..100 {
        near.send_to(number.to_string().as_bytes(), (cluster.on(2).address, PORT)).unwrap();
    }
    for number in 0..100 {
        assert_eq!(heard(&far), number.to_string());
    }
}

#[test]
fn a_stream_arrives_whole() {
    let Some(cluster) = cluster(2, &delayed(None)) else { return };
    let serve = "import socket, hashlib\nserver = socket.create_server(('', 7000))\nprint('ready', flush=True)\n\
                 print(hashlib.sha256(server.accept()[0].makefile('rb').read()).hexdigest())";
    let send = "import socket, hashlib, os\ndata = os.urandom(20 << 20)\n\
                socket.create_connection(('node002', 7000)).sendall(data)\nprint(hashlib.sha256(data).hexdigest())";
    let mut server = cluster.on(2).command("python3").args(["-c", serve]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(server.stdout.take().unwrap()));
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let sent = cluster.on(1).command("python3").args(["-c", send]).output().unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), String::from_utf8(sent.stdout).unwrap().trim());
    server.wait().unwrap();
}

#[test]
fn a_rate_applies_behind_a_delay() {
    links::check("out", Some("5ms".parse().unwrap()));
    links::check("in", Some("5ms".parse().unwrap()));
    let Some(cluster) = cluster(2, &delayed(Some("40mbit"))) else { return };
    check_round_trips(cluster.on(1), cluster.on(2));
}

fn on_the_switch(cluster: &Cluster, arguments: &str) -> String {
    let network = format!("--net=/proc/{}/ns/net", cluster.running().switch.pid);
    let mut command = Command::new("nsenter");
    let output = command.args([&network, "--", "ip"]).args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_node_is_cut_off_and_returns() {
    let Some(cluster) = cluster(3, &delayed(None)) else { return };
    let [first, second, third] = [1, 2, 3].map(|number| socket(cluster.on(number)));
    let check = |word: &str, arrives: bool| {
        first.send_to(word.as_bytes(), (ALL, PORT)).unwrap();
        assert_eq!(heard(&third), word, "the third is never cut off");
        if arrives {
            // The packets sent to it before have not arrived.
            assert_eq!(heard(&second), word);
        }
    };
    check("before", true);
    on_the_switch(&cluster, "link add island type bridge");
    on_the_switch(&cluster, "link set island up");
    on_the_switch(&cluster, "link set node002 master island");
    check("meanwhile", false);
    on_the_switch(&cluster, "link set node002 master bridge");
    check("after", true);
}

#[test]
fn the_link_of_a_killed_node_is_removed() {
    let Some(cluster) = cluster(3, &delayed(None)) else { return };
    assert!(on_the_switch(&cluster, "-brief link").contains("node002"));
    cluster.on(2).kill().unwrap();
    await_end("the link", || !on_the_switch(&cluster, "-brief link").contains("node002"));
    check_round_trips(cluster.on(1), cluster.on(3));
}

#[test]
fn devices_are_named_alike_and_each_node_sees_its_own() {
    let Some(cluster) = cluster(2, &delayed(None)) else { return };
    for node in cluster.nodes() {
        assert_eq!(shell(node, "ls /sys/class/net >/dev/null; ip -o link | wc -l"), "2", "lo and eth0");
        assert!(shell(node, "ip -brief link").contains("eth0"));
    }
    let ports = on_the_switch(&cluster, "-brief link show master bridge");
    assert_eq!(ports.lines().count(), 2, "{ports}");
}

#[test]
fn a_cluster_that_stays_is_delayed_by_the_kernel_or_not_made() {
    if let Err(reason) = check() {
        return skipped(reason);
    }
    let parent = tempfile::tempdir().unwrap();
    let registry = Registry::open_at(&parent.path().join("clusters")).unwrap();
    match registry.up("delayed", 2, &Options { delay: Some("3ms".parse().unwrap()), ..Options::default() }) {
        Ok(running) => {
            assert!(shell(&running.nodes[1], "tc qdisc show dev eth0").contains("delay 3ms"));
            registry.down("delayed").unwrap();
        }
        Err(reason @ Error::Delay { .. }) => {
            let text = reason.to_string();
            assert!(text.contains("modprobe sch_netem") && text.contains("--delay") && text.contains("tun"), "{text}");
            assert!(registry.list().unwrap().is_empty());
        }
        Err(reason) => panic!("{reason}"),
    }
}
