//! Network cards and switches. A packet occupies the sender's card, the switches' uplinks on its route and
//! the receiver's card, each for its bytes at that rate, one packet after the other.

use crate::parameters::{Network, ns_at, us};

/// The rates and delays, and when shared parts are free.
#[derive(Debug)]
pub(crate) struct Wires {
    bytes_per_ns: f64,
    latency_ns: u64,
    tiers: Vec<Tier>,
}

#[derive(Debug)]
struct Tier {
    nodes: u32,
    bytes_per_ns: f64,
    latency_ns: u64,
    /// By switch: when its uplink's last packet was sent, and was received.
    out_free: Vec<u64>,
    in_free: Vec<u64>,
}

/// A node's card: when its last packet was sent, and was received.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Card {
    pub(crate) out_free: u64,
    in_free: u64,
}

impl Wires {
    /// Makes the network. `members` are the simulated ranks: in a sample, an uplink carries the traffic of
    /// the others too.
    pub(crate) fn new(network: &Network, ranks: u32, members: &[u32]) -> Wires {
        let bytes_per_ns = network.rate_gbit / 8.0;
        let tiers = network.tiers.iter().map(|tier| {
            let switches = ranks.div_ceil(tier.nodes) as usize;
            let is_shared = ranks > tier.nodes;
            let share = members.len() as f64 / f64::from(ranks);
            let below = (f64::from(tier.nodes) * share).max(1.0);
            Tier {
                nodes: tier.nodes,
                bytes_per_ns: bytes_per_ns * below / tier.oversubscription,
                latency_ns: us(tier.latency_us),
                out_free: vec![0; if is_shared { switches } else { 0 }],
                in_free: vec![0; if is_shared { switches } else { 0 }],
            }
        });
        Wires { bytes_per_ns, latency_ns: us(network.latency_us), tiers: tiers.collect() }
    }

    /// Returns a card's time for so many bytes.
    pub(crate) fn card_ns(&self, bytes: u64) -> u64 {
        ns_at(bytes, self.bytes_per_ns)
    }

    /// Puts a packet on the sender's card. Returns when its first byte leaves.
    pub(crate) fn leave(&self, at_ns: u64, from: &mut Card, bytes: u64) -> u64 {
        let first = at_ns.max(from.out_free);
        from.out_free = first + self.card_ns(bytes);
        first
    }

    /// Carries it through the switches between two ranks. Returns when its first byte arrives at the
    /// receiver's card.
    pub(crate) fn carry(&mut self, first_ns: u64, from: u32, to: u32, bytes: u64) -> u64 {
        let mut at = first_ns + self.latency_ns;
        for tier in &mut self.tiers {
            let (here, there) = (from / tier.nodes, to / tier.nodes);
            if here == there || tier.out_free.is_empty() {
                break;
            }
            let ns = ns_at(bytes, tier.bytes_per_ns);
            for free in [&mut tier.out_free[here as usize], &mut tier.in_free[there as usize]] {
                at = at.max(*free);
                *free = at + ns;
            }
            at += tier.latency_ns;
        }
        at
    }

    /// Receives it. Returns when its last byte has arrived.
    pub(crate) fn receive(&self, first_ns: u64, to: &mut Card, bytes: u64) -> u64 {
        to.in_free = first_ns.max(to.in_free) + self.card_ns(bytes);
        to.in_free
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters;

    fn wires(tiers: Vec<parameters::Tier>) -> Wires {
        let network = Network { rate_gbit: 8.0, latency_us: 1.0, tiers, ..Network::default() };
        Wires::new(&network, 8, &[0, 1, 2, 3, 4, 5, 6, 7])
    }

    fn send(wires: &mut Wires, cards: &mut [Card], from: u32, to: u32, bytes: u64) -> u64 {
        let first = wires.leave(0, &mut cards[from as usize], bytes);
        let first = wires.carry(first, from, to, bytes);
        wires.receive(first, &mut cards[to as usize], bytes)
    }

    #[test]
    fn cards_are_shared_in_each_direction() {
        let (mut wires, mut cards) = (wires(Vec::new()), [Card::default(); 8]);
        assert_eq!(send(&mut wires, &mut cards, 0, 1, 1000), 2000);
        assert_eq!(send(&mut wires, &mut cards, 0, 2, 1000), 3000, "the sender's card is busy");
        assert_eq!(send(&mut wires, &mut cards, 3, 1, 1000), 3000, "the receiver's card is busy");
        assert_eq!(send(&mut wires, &mut cards, 1, 4, 1000), 2000, "the other direction is not");
    }

    #[test]
    fn an_uplink_is_shared_by_its_switch() {
        let tier = parameters::Tier { nodes: 4, oversubscription: 4.0, latency_us: 2.0 };
        let (mut wires, mut cards) = (wires(vec![tier]), [Card::default(); 8]);
        assert_eq!(send(&mut wires, &mut cards, 0, 4, 1000), 4000);
        assert_eq!(send(&mut wires, &mut cards, 1, 5, 1000), 5000, "one node's rate for four");
        assert_eq!(send(&mut wires, &mut cards, 2, 3, 1000), 2000, "below one switch");
    }
}
