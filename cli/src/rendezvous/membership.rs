//! Membership: nodes arrive in any order, and the front end decides when no node is missing. It has no I/O and no
//! clock.
//!
//! No node is missing by the first rule that applies:
//! - the launcher's number of nodes has arrived;
//! - the nodes that have arrived run the launcher's number of processes;
//! - no node has arrived for [`QUIET_MS`].
//!
//! A node that arrives later than [`MISSING_MS_MAX`] after the first one does not take part.

use std::cmp::Reverse;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// Milliseconds of a monotonic clock.
pub type Time = u64;

/// How long no node arrives until membership is complete, without numbers of the launcher, in milliseconds.
pub const QUIET_MS: Time = 1000;
/// How long missing nodes are waited for after the first arrival, in milliseconds.
pub const MISSING_MS_MAX: Time = 10_000;
/// Limit of the number of nodes.
pub const NODES_MAX: usize = 100_000;

/// The registration of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// Its host name.
    pub name: String,
    /// The address of its daemon.
    pub address: SocketAddr,
    /// The addresses of its daemon on the interfaces that the user named; `address` is the first of them.
    #[serde(default)]
    pub interfaces: Vec<SocketAddr>,
    /// The interfaces that it lacks.
    #[serde(default)]
    pub interfaces_missing: Vec<String>,
    /// The launcher's number of the node, from 0.
    pub number: Option<u32>,
    /// The launcher's number of nodes.
    pub nodes: Option<u32>,
    /// The lowest rank of its processes.
    pub rank: Option<u32>,
    /// The number of its processes.
    pub processes_here: Option<u32>,
    /// The number of processes on all nodes.
    pub processes: Option<u32>,
    /// Whether it has the I/O library.
    #[serde(default)]
    pub has_io: bool,
    /// How many of the launcher's nodes it stands for, as far as it knows.
    #[serde(default)]
    pub stands_for: u32,
}

/// The state of membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MembershipState {
    /// More nodes may arrive. Check again at this time, or at the next arrival.
    Waiting(Time),
    /// No node has arrived.
    Empty,
    /// No node is missing.
    Complete,
    /// Lower bound of the number of nodes that have not arrived in time.
    Incomplete(u32),
}

/// The nodes that have arrived.
#[derive(Debug, Default)]
pub struct Membership {
    arrivals: Vec<Arrival>,
    first_at: Time,
    last_at: Time,
}

impl Membership {
    /// Registers a node. Returns its index in order of arrival; re-registration keeps the index. `None` if there are
    /// too many nodes.
    pub fn arrive(&mut self, now: Time, arrival: Arrival) -> Option<usize> {
        if self.arrivals.is_empty() {
            self.first_at = now;
        }
        self.last_at = now;
        let is_same = |other: &Arrival| other.address == arrival.address;
        if let Some(index) = self.arrivals.iter().position(is_same) {
            self.arrivals[index] = arrival;
            return Some(index);
        }
        if self.arrivals.len() >= NODES_MAX {
            return None;
        }
        self.arrivals.push(arrival);
        Some(self.arrivals.len() - 1)
    }

    /// Removes a node that left before membership was decided.
    pub fn leave(&mut self, index: usize) {
        self.arrivals.remove(index);
    }

    /// Returns the state at the time `now`.
    pub fn state(&self, now: Time) -> MembershipState {
        if self.arrivals.is_empty() {
            return MembershipState::Empty;
        }
        let missing = self.missing();
        let until = match missing {
            Some(0) => return MembershipState::Complete,
            Some(_) => self.first_at + MISSING_MS_MAX,
            None => (self.last_at + QUIET_MS).min(self.first_at + MISSING_MS_MAX),
        };
        match missing {
            _ if now < until => MembershipState::Waiting(until),
            Some(missing) => MembershipState::Incomplete(missing),
            None => MembershipState::Complete,
        }
    }

    /// Returns a lower bound of the number of missing nodes, if the launcher's numbers give one.
    fn missing(&self) -> Option<u32> {
        let here = self.arrivals.iter().map(|arrival| arrival.stands_for.max(1)).fold(0, u32::saturating_add);
        if let Some(nodes) = self.arrivals.iter().filter_map(|arrival| arrival.nodes).max() {
            return Some(nodes.saturating_sub(here));
        }
        let processes = self.arrivals.iter().filter_map(|arrival| arrival.processes).max()?;
        let counted: Option<Vec<u32>> = self.arrivals.iter().map(|arrival| arrival.processes_here).collect();
        let most = counted.iter().flatten().copied().max().unwrap_or(1).max(1);
        let stand_for = self.arrivals.iter().map(|arrival| arrival.stands_for.max(1));
        let counted = counted?.into_iter().zip(stand_for).map(|(processes, nodes)| processes.saturating_mul(nodes));
        let left = processes.saturating_sub(counted.fold(0, u32::saturating_add));
        Some(left.div_ceil(most))
    }

    /// Returns whether it is certain that all nodes of the program take part and have the I/O library.
    pub fn has_io_everywhere(&self) -> bool {
        self.missing() == Some(0) && self.arrivals.iter().all(|arrival| arrival.has_io)
    }

    /// Returns the nodes' indices in the order of nodes: by the launcher's number, else by the lowest rank of their
    /// processes, else by name.
    pub fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.arrivals.len()).collect();
        let unknown_last = |number: Option<u32>| (Reverse(number.is_some()), number);
        order.sort_by_cached_key(|&index| {
            let Arrival { name, number, rank, address, .. } = &self.arrivals[index];
            (unknown_last(*number), unknown_last(*rank), name.clone(), *address)
        });
        order
    }

    /// Returns the registrations in order of arrival.
    pub fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(port: u16) -> Arrival {
        Arrival {
            stands_for: 1,
            name: format!("node{port}"),
            address: ([127, 0, 0, 1], port).into(),
            interfaces: Vec::new(),
            interfaces_missing: Vec::new(),
            number: None,
            nodes: None,
            rank: None,
            processes_here: None,
            processes: None,
            has_io: false,
        }
    }

    fn membership(arrivals: impl IntoIterator<Item = Arrival>) -> Membership {
        let mut membership = Membership::default();
        for (arrival, at) in arrivals.into_iter().zip((1000..).step_by(100)) {
            membership.arrive(at, arrival).unwrap();
        }
        membership
    }

    #[test]
    fn nodes_that_are_one_machine_count_as_the_launcher_counts() {
        let mut membership = Membership::default();
        let flux = |stands_for| Arrival { nodes: Some(2), stands_for, ..arrival(1) };
        membership.arrive(0, flux(1));
        assert_eq!(membership.state(0), MembershipState::Waiting(MISSING_MS_MAX));
        assert_eq!(membership.arrive(5, flux(2)), Some(0));
        assert_eq!(membership.state(5), MembershipState::Complete);
        let mut membership = Membership::default();
        let arrival = Arrival { processes: Some(4), processes_here: Some(2), stands_for: 2, ..arrival(1) };
        membership.arrive(0, arrival);
        assert_eq!(membership.state(0), MembershipState::Complete);
    }

    #[test]
    fn the_launchers_number_of_nodes_decides() {
        let arrival_of =
            |port| Arrival { nodes: Some(3), processes: Some(8), processes_here: Some(1), ..arrival(port) };
        assert_eq!(membership([]).state(5), MembershipState::Empty);
        let two = membership([arrival_of(1), arrival_of(2)]);
        assert_eq!(two.state(1100), MembershipState::Waiting(1000 + MISSING_MS_MAX));
        assert_eq!(two.state(1000 + MISSING_MS_MAX), MembershipState::Incomplete(1));
        assert_eq!(membership([arrival_of(1), arrival_of(2), arrival_of(3)]).state(1300), MembershipState::Complete);
    }

    #[test]
    fn numbers_of_processes_show_what_is_missing() {
        let arrival_of = |port, here| Arrival { processes: Some(10), processes_here: Some(here), ..arrival(port) };
        assert_eq!(membership([arrival_of(1, 4), arrival_of(2, 4)]).state(20_000), MembershipState::Incomplete(1));
        assert_eq!(
            membership([arrival_of(1, 4), arrival_of(2, 4), arrival_of(3, 2)]).state(1300),
            MembershipState::Complete
        );
        assert_eq!(membership([arrival_of(1, 1)]).state(20_000), MembershipState::Incomplete(9));
    }

    #[test]
    fn silence_completes_the_membership() {
        let quiet = membership([arrival(1), arrival(2)]);
        assert_eq!(quiet.state(1200), MembershipState::Waiting(1100 + QUIET_MS));
        assert_eq!(quiet.state(1100 + QUIET_MS), MembershipState::Complete);
        let endless = membership((1..200).map(arrival));
        assert_eq!(endless.state(1000 + MISSING_MS_MAX), MembershipState::Complete);
    }

    #[test]
    fn the_library_is_everywhere_if_no_node_can_lack_it() {
        let with = |port, nodes| Arrival { nodes, has_io: true, ..arrival(port) };
        assert!(membership([with(1, Some(2)), with(2, Some(2))]).has_io_everywhere());
        assert!(!membership([with(1, Some(3)), with(2, Some(3))]).has_io_everywhere());
        assert!(!membership([with(1, None), with(2, None)]).has_io_everywhere());
        assert!(!membership([with(1, Some(2)), arrival(2)]).has_io_everywhere());
    }

    #[test]
    fn nodes_are_in_the_launchers_order() {
        let check = |arrivals: Vec<Arrival>, expected: &[usize]| {
            let membership = membership(arrivals);
            assert_eq!(membership.order(), expected, "{:?}", membership.arrivals());
        };
        check(vec![arrival(3), arrival(1), arrival(2)], &[1, 2, 0]);
        let ranked = |port, rank| Arrival { rank: Some(rank), ..arrival(port) };
        check(vec![ranked(1, 8), arrival(9), ranked(2, 0), ranked(3, 4)], &[2, 3, 0, 1]);
        let numbered = |port, number, rank| Arrival { number: Some(number), ..ranked(port, rank) };
        check(vec![numbered(1, 2, 0), numbered(2, 0, 1), numbered(3, 1, 2)], &[1, 2, 0]);
    }

    #[test]
    fn reregistration_keeps_the_index() {
        let mut membership = membership([arrival(1), arrival(2)]);
        assert_eq!(membership.arrive(2000, Arrival { rank: Some(1), ..arrival(1) }), Some(0));
        assert_eq!((membership.arrivals().len(), membership.arrivals()[0].rank), (2, Some(1)));
        membership.leave(0);
        assert_eq!(membership.arrivals(), [arrival(2)]);
    }
}
