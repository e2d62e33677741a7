//! Who takes part: a job's nodes come one after the other, in any order, and the front end decides when all
//! are there. It has no I/O and no clock.
//!
//! What tells that nobody is missing, the first that applies:
//! - the launcher says how many nodes there are;
//! - it says how many processes there are, and how many on each node;
//! - nobody has come for [`QUIET_MS`].
//!
//! Who does not come in [`MISSING_MS_MAX`] after the first is not waited for.

use std::cmp::Reverse;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// Milliseconds of a clock that never goes back.
pub type Time = u64;

/// How long nobody comes until nobody is missing, where nothing else tells, in milliseconds.
pub const QUIET_MS: Time = 1000;
/// How long the missing are waited for after the first has come, in milliseconds.
pub const MISSING_MS_MAX: Time = 10_000;
/// The most nodes.
pub const NODES_MAX: usize = 100_000;

/// What a node says when it comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// Its host name.
    pub name: String,
    /// Where its daemon listens.
    pub address: SocketAddr,
    /// The launcher's number for it, counted from zero.
    pub number: Option<u32>,
    /// How many nodes there are.
    pub nodes: Option<u32>,
    /// The lowest rank of its processes.
    pub rank: Option<u32>,
    /// How many processes it runs.
    pub processes_here: Option<u32>,
    /// How many there are on all nodes.
    pub processes: Option<u32>,
    /// It has the library for the program's I/O.
    #[serde(default)]
    pub has_io: bool,
    /// How many of the launcher's nodes it is, as far as it knows yet.
    #[serde(default)]
    pub stands_for: u32,
}

/// Whether all are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// More may come; to be asked again at this time, if nobody comes before.
    Wait(Time),
    /// Nobody has come yet.
    Nobody,
    /// Nobody is missing.
    Complete,
    /// So many nodes at least have not come.
    Without(u32),
}

/// The nodes that have come.
#[derive(Debug, Default)]
pub struct Membership {
    arrivals: Vec<Arrival>,
    first_at: Time,
    last_at: Time,
}

impl Membership {
    /// A node has come; its place in the order of coming. One that comes again takes its old place.
    /// `None` if there are too many.
    pub fn arrive(&mut self, now: Time, arrival: Arrival) -> Option<usize> {
        if self.arrivals.is_empty() {
            self.first_at = now;
        }
        self.last_at = now;
        let is_same = |other: &Arrival| other.address == arrival.address;
        if let Some(place) = self.arrivals.iter().position(is_same) {
            self.arrivals[place] = arrival;
            return Some(place);
        }
        if self.arrivals.len() >= NODES_MAX {
            return None;
        }
        self.arrivals.push(arrival);
        Some(self.arrivals.len() - 1)
    }

    /// A node has gone before all were there.
    pub fn leave(&mut self, place: usize) {
        self.arrivals.remove(place);
    }

    /// Whether all are there.
    pub fn verdict(&self, now: Time) -> Verdict {
        if self.arrivals.is_empty() {
            return Verdict::Nobody;
        }
        let missing = self.missing();
        let until = match missing {
            Some(0) => return Verdict::Complete,
            Some(_) => self.first_at + MISSING_MS_MAX,
            None => (self.last_at + QUIET_MS).min(self.first_at + MISSING_MS_MAX),
        };
        match missing {
            _ if now < until => Verdict::Wait(until),
            Some(missing) => Verdict::Without(missing),
            None => Verdict::Complete,
        }
    }

    /// How many nodes are missing at least, if that can be told.
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

    /// Whether all nodes of the program are here for certain, and have the library for its I/O.
    pub fn has_io_everywhere(&self) -> bool {
        self.missing() == Some(0) && self.arrivals.iter().all(|arrival| arrival.has_io)
    }

    /// The nodes in their order: by the launcher's number, or else by the lowest rank of their processes, or
    /// else by name. Places in the order of coming.
    pub fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.arrivals.len()).collect();
        let unknown_last = |number: Option<u32>| (Reverse(number.is_some()), number);
        order.sort_by_cached_key(|&place| {
            let Arrival { name, number, rank, address, .. } = &self.arrivals[place];
            (unknown_last(*number), unknown_last(*rank), name.clone(), *address)
        });
        order
    }

    /// Who has come, in the order of coming.
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
        assert_eq!(membership.verdict(0), Verdict::Wait(MISSING_MS_MAX));
        assert_eq!(membership.arrive(5, flux(2)), Some(0));
        assert_eq!(membership.verdict(5), Verdict::Complete);
        let mut membership = Membership::default();
        let told = Arrival { processes: Some(4), processes_here: Some(2), stands_for: 2, ..arrival(1) };
        membership.arrive(0, told);
        assert_eq!(membership.verdict(0), Verdict::Complete);
    }

    #[test]
    fn the_launchers_number_of_nodes_decides() {
        let told = |port| Arrival { nodes: Some(3), processes: Some(8), processes_here: Some(1), ..arrival(port) };
        assert_eq!(membership([]).verdict(5), Verdict::Nobody);
        let two = membership([told(1), told(2)]);
        assert_eq!(two.verdict(1100), Verdict::Wait(1000 + MISSING_MS_MAX));
        assert_eq!(two.verdict(1000 + MISSING_MS_MAX), Verdict::Without(1));
        assert_eq!(membership([told(1), told(2), told(3)]).verdict(1300), Verdict::Complete);
    }

    #[test]
    fn processes_tell_who_is_missing() {
        let told = |port, here| Arrival { processes: Some(10), processes_here: Some(here), ..arrival(port) };
        assert_eq!(membership([told(1, 4), told(2, 4)]).verdict(20_000), Verdict::Without(1));
        assert_eq!(membership([told(1, 4), told(2, 4), told(3, 2)]).verdict(1300), Verdict::Complete);
        assert_eq!(membership([told(1, 1)]).verdict(20_000), Verdict::Without(9));
    }

    #[test]
    fn otherwise_silence_does() {
        let quiet = membership([arrival(1), arrival(2)]);
        assert_eq!(quiet.verdict(1200), Verdict::Wait(1100 + QUIET_MS));
        assert_eq!(quiet.verdict(1100 + QUIET_MS), Verdict::Complete);
        let endless = membership((1..200).map(arrival));
        assert_eq!(endless.verdict(1000 + MISSING_MS_MAX), Verdict::Complete);
    }

    #[test]
    fn the_library_is_everywhere_if_nobody_can_lack_it() {
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
    fn who_comes_again_is_there_once() {
        let mut membership = membership([arrival(1), arrival(2)]);
        assert_eq!(membership.arrive(2000, Arrival { rank: Some(1), ..arrival(1) }), Some(0));
        assert_eq!((membership.arrivals().len(), membership.arrivals()[0].rank), (2, Some(1)));
        membership.leave(0);
        assert_eq!(membership.arrivals(), [arrival(2)]);
    }
}
