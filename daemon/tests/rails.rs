//! Links over several interfaces: addresses of the loopback network stand for them.

mod support;

use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};

use headwater_abi::client::{Status, Want};
use headwater_daemon::{Config, Shape};
use headwater_overlay::{Interface, Rails, listen_on};
use support::Cluster;

const RANKS: u32 = 4;
const BYTES: usize = 24 << 20;

/// The interface with this number of a rank, which has a network of its own.
fn interface(rank: u32, number: u8) -> Interface {
    let address = IpAddr::from([127, 7, number, rank as u8 + 1]);
    Interface { name: "lo".into(), address, prefix_bits: 24 }
}

/// The interfaces of all ranks, and their listeners.
struct Network {
    interfaces: Vec<Vec<Interface>>,
    listeners: Vec<Vec<TcpListener>>,
}

impl Network {
    /// Each rank has these numbers of interfaces.
    fn new(numbers: impl Fn(u32) -> Vec<u8>) -> Network {
        let of = |rank| numbers(rank).into_iter().map(|number| interface(rank, number)).collect();
        let interfaces: Vec<Vec<Interface>> = (0..RANKS).map(of).collect();
        let listen = |own: &Vec<Interface>| match &own[..] {
            [] => vec![TcpListener::bind("127.0.0.1:0").unwrap()],
            own => own.iter().map(|interface| listen_on(interface, 0).unwrap()).collect(),
        };
        let listeners = interfaces.iter().map(listen).collect();
        Network { interfaces, listeners }
    }

    fn peers(&self) -> Vec<Vec<SocketAddr>> {
        let addresses = |own: &Vec<TcpListener>| own.iter().map(|one| one.local_addr().unwrap()).collect();
        self.listeners.iter().map(addresses).collect()
    }
}

fn content() -> Vec<u8> {
    let mut state = 7u64;
    let word = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_le_bytes()
    };
    (0..BYTES / 8).flat_map(word).collect()
}

/// Sends a large file to all ranks. Returns the reports' failures of interfaces.
fn check(network: Network, peers: Vec<Vec<SocketAddr>>) -> Vec<Option<String>> {
    let mut cluster = Cluster::prepare();
    let content = content();
    cluster.write("large", &content);
    let interfaces = network.interfaces;
    cluster.run_on(network.listeners, |config: &mut Config| {
        config.shape = Shape::default_of(RANKS);
        let interfaces = interfaces[config.rank as usize].clone();
        config.rails = Some(Rails { interfaces, peers: peers.clone(), listener_fds: Vec::new() });
    });
    for rank in 0..RANKS as usize {
        assert_eq!(cluster.ask(rank, "large", Want::WHOLE), Status::Done, "rank {rank}");
        let copy = std::fs::read(cluster.nodes[rank].copy(&cluster.shared("large"))).unwrap();
        assert!(copy == content, "rank {rank} has other bytes");
    }
    let reports = cluster.stop();
    assert_eq!(
        reports.iter().map(|report| report.shared_fs.bytes_read).sum::<u64>(),
        BYTES as u64,
        "the rest came by links"
    );
    reports.into_iter().map(|report| report.interface_failure).collect()
}

#[test]
fn links_have_a_connection_over_each_interface() {
    let network = Network::new(|_| vec![0, 1, 2]);
    let peers = network.peers();
    assert_eq!(check(network, peers), [None, None, None, None]);
}

#[test]
fn nodes_without_some_interfaces_use_the_others() {
    let network = Network::new(|rank| match rank {
        0 => vec![1],
        1 => vec![],
        2 => vec![0],
        _ => vec![0, 1],
    });
    let peers = network.peers();
    assert_eq!(check(network, peers), [None, None, None, None]);
}

#[test]
fn connections_that_are_no_peers_do_not_hinder_links() {
    let network = Network::new(|_| vec![0, 1]);
    let peers = network.peers();
    let addresses: Vec<SocketAddr> = peers.iter().flatten().copied().collect();
    let unauthenticated = addresses.iter().flat_map(|address| (0..50u8).map(move |number| (*address, number)));
    let unauthenticated = unauthenticated.map(|(address, number)| {
        let mut socket = TcpStream::connect(address).unwrap();
        // Nothing, a part of a preface, one that is impossible, and a link whose connections never come.
        let bytes: &[u8] = match number % 4 {
            0 => &[],
            1 => &[7; 9],
            2 => &[9; 40],
            _ => &[&[number; 16][..], &[0, 2]].concat(),
        };
        socket.write_all(bytes).unwrap();
        socket
    });
    let _unauthenticated: Vec<TcpStream> = unauthenticated.collect();
    assert_eq!(check(network, peers), [None, None, None, None]);
}

#[test]
fn an_interface_that_does_not_reach_a_peer_is_reported_and_left_out() {
    let network = Network::new(|_| vec![0, 1]);
    let mut peers = network.peers();
    // Nothing listens there.
    peers.iter_mut().for_each(|addresses| addresses[1].set_port(1));
    let failures = check(network, peers);
    let some: Vec<String> = failures.into_iter().flatten().collect();
    assert!(!some.is_empty());
    for failure in some {
        assert!(failure.contains("interface lo (127.7.1.") && failure.contains("--interfaces"), "{failure}");
    }
}
