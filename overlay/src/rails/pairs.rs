//! Which interface of this node leads to which address of a peer.

use std::net::SocketAddr;

use super::interface::{Interface, RAILS_MAX};

/// Pairs this node's interfaces with a peer's addresses. Each occurs at most once, so that a link loads each interface
/// of either end equally. First come pairs on one network, then the others by their positions. Without an own
/// interface, the peer's first address is used.
pub(crate) fn pairs<'a>(own: &'a [Interface], peer: &[SocketAddr]) -> Vec<(Option<&'a Interface>, SocketAddr)> {
    if own.is_empty() {
        return peer.first().map(|address| (None, *address)).into_iter().collect();
    }
    let mut free: Vec<Option<SocketAddr>> = peer.iter().copied().map(Some).collect();
    let mut chosen: Vec<Option<SocketAddr>> = vec![None; own.len()];
    for (position, interface) in own.iter().enumerate() {
        let is_near =
            |at: &usize| free.get(*at).copied().flatten().is_some_and(|address| interface.is_on_network(address.ip()));
        // The same position first: on a common network, each interface has a partner of its own.
        let near = std::iter::once(position).chain(0..free.len()).find(is_near);
        chosen[position] = near.and_then(|at| free[at].take());
    }
    let mut left = free.into_iter().flatten();
    for (interface, place) in own.iter().zip(&mut chosen).filter(|(_, place)| place.is_none()) {
        *place = left.find(|address| address.is_ipv4() == interface.address.is_ipv4());
    }
    let pairs = own.iter().zip(chosen).filter_map(|(interface, address)| Some((Some(interface), address?)));
    pairs.take(RAILS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs `own`, written as `ib0=10.0.0.1/24`, with the addresses of a peer.
    fn check(own: &str, peer: &str, expected: &str) {
        let interface = |text: &str| {
            let (name, network) = text.split_once('=').unwrap();
            let (address, bits) = network.split_once('/').unwrap();
            Interface { name: name.into(), address: address.parse().unwrap(), prefix_bits: bits.parse().unwrap() }
        };
        let own: Vec<Interface> = own.split_whitespace().map(interface).collect();
        let peer: Vec<SocketAddr> = peer.split_whitespace().map(|ip| SocketAddr::new(ip.parse().unwrap(), 7)).collect();
        let found = pairs(&own, &peer).into_iter().map(|(interface, address)| {
            format!("{}>{}", interface.map_or("any", |interface| &interface.name), address.ip())
        });
        assert_eq!(found.collect::<Vec<_>>().join(" "), expected);
    }

    #[test]
    fn interfaces_lead_to_their_networks() {
        let two = "ib0=10.0.0.1/24 ib1=10.0.1.1/24";
        check(two, "10.0.0.2 10.0.1.2", "ib0>10.0.0.2 ib1>10.0.1.2");
        check(two, "10.0.1.2 10.0.0.2", "ib0>10.0.0.2 ib1>10.0.1.2");
        check(two, "10.0.1.2", "ib1>10.0.1.2");
        check("ib1=10.0.1.1/24", "10.0.0.2 10.0.1.2", "ib1>10.0.1.2");
        check("a=fd00::1/64 b=10.0.1.1/24", "10.0.1.2 fd00::2", "a>fd00::2 b>10.0.1.2");
    }

    #[test]
    fn interfaces_of_one_network_have_partners_of_their_own() {
        let two = "ib0=10.0.0.1/16 ib1=10.0.1.1/16";
        check(two, "10.0.0.2 10.0.1.2", "ib0>10.0.0.2 ib1>10.0.1.2");
        check(two, "10.0.1.2", "ib0>10.0.1.2");
        check("ib0=10.0.0.1/16", "10.0.0.2 10.0.1.2", "ib0>10.0.0.2");
    }

    #[test]
    fn other_networks_are_reached_by_position() {
        check("a=10.1.0.1/31 b=10.2.0.1/31", "10.1.0.5 10.2.0.5", "a>10.1.0.5 b>10.2.0.5");
        check("a=10.1.0.1/31", "fd00::1 10.1.0.5", "a>10.1.0.5");
        check("", "10.0.0.2 10.0.1.2", "any>10.0.0.2");
        check("a=10.1.0.1/31", "", "");
    }

    #[test]
    fn rails_are_limited() {
        let own: String = (0..20).map(|n| format!("i{n}=10.0.{n}.1/24 ")).collect();
        let peer: String = (0..20).map(|n| format!("10.0.{n}.2 ")).collect();
        let expected: Vec<String> = (0..RAILS_MAX).map(|n| format!("i{n}>10.0.{n}.2")).collect();
        check(&own, &peer, &expected.join(" "));
    }
}
