//! Which leg took the time: process ← node ← parents ← shared file system.
//!
//! A node knows how long it waited for a parent, and the parent knows what it did meanwhile. So what a node waited for a
//! parent is apportioned as the parent spent the time of this child's requests, and so on up to the reader. Only lengths
//! of time are used, which no clock of another node makes wrong.

use std::collections::{BTreeMap, BTreeSet};

use super::part::{LinkPart, NodePart, Relation, Waits};
use super::schema::Legs;

/// The longest way from a node to a reader, in links. Trees are not deep, and what is left after so many links counts as
/// unknown: nodes that take each other's place may request in a circle.
const LINKS_MAX: u32 = 32;

/// Both ends of all links.
#[derive(Debug, Default)]
pub(super) struct Upstream {
    /// By child and parent: the child's end.
    children: BTreeMap<(u32, u32), Waits>,
    /// By child and parent: the parent's end.
    parents: BTreeMap<(u32, u32), Waits>,
    ranks: BTreeSet<u32>,
}

/// Where a wait for a parent was spent, as parts of one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Shares {
    links: f64,
    parents: f64,
    cache: f64,
    shared_fs: f64,
    unknown: f64,
}

/// What a parent knows of a link's wait, and the parts for which it waited itself, by the number of the link above.
#[derive(Debug)]
struct OwnShares {
    here: Shares,
    above: Vec<(usize, f64)>,
}

/// The shares of all links.
#[derive(Debug)]
pub(super) struct Apportioned(BTreeMap<(u32, u32), Shares>);

impl Upstream {
    /// Adds a node's ends.
    pub(super) fn add(&mut self, part: &NodePart) {
        self.ranks.insert(part.rank);
        for LinkPart { rank, relation, waits, .. } in &part.links {
            match relation {
                Relation::Parent => self.children.entry((part.rank, *rank)).or_default().add(waits),
                Relation::Child => self.parents.entry((*rank, part.rank)).or_default().add(waits),
            }
        }
    }

    /// Apportions each link's wait. Nodes are parents of each other in different trees, so a way up is followed for all
    /// links at once, one link further each time.
    pub(super) fn apportion(&self) -> Apportioned {
        let links: BTreeSet<(u32, u32)> = self.children.keys().chain(self.parents.keys()).copied().collect();
        let numbers: BTreeMap<(u32, u32), usize> = links.iter().copied().zip(0..).collect();
        let own: Vec<OwnShares> = links.iter().map(|&link| self.own_shares(link, &numbers)).collect();
        let mut shares = vec![Shares::UNKNOWN; own.len()];
        for _ in 0..LINKS_MAX {
            shares = own.iter().map(|own| own.with(&shares)).collect();
        }
        Apportioned(links.into_iter().zip(shares).collect())
    }

    /// Returns the shares of a link's wait that its parent knows, and those of the links above.
    fn own_shares(&self, (child, parent): (u32, u32), numbers: &BTreeMap<(u32, u32), usize>) -> OwnShares {
        if !self.ranks.contains(&parent) {
            return OwnShares { here: Shares::UNKNOWN, above: Vec::new() };
        }
        let sent = self.children.get(&(child, parent)).map_or(0, |waits| waits.wait_us) as f64;
        let Some(served) = self.parents.get(&(child, parent)).filter(|waits| waits.wait_us > 0 && sent > 0.0) else {
            return OwnShares { here: Shares { links: 1.0, ..Shares::default() }, above: Vec::new() };
        };
        let all = served.wait_us as f64;
        let at_parent = (all / sent).min(1.0);
        let part = |us: u64| at_parent * us as f64 / all;
        let mut here = Shares {
            links: 1.0 - at_parent,
            parents: part(served.node_us),
            cache: part(served.cache_us),
            shared_fs: part(served.shared_fs_us),
            unknown: 0.0,
        };
        let mut above = Vec::new();
        for &(next, us) in &served.parents_us {
            match numbers.get(&(parent, next)) {
                Some(&number) => above.push((number, part(us))),
                None => here.unknown += part(us),
            }
        }
        OwnShares { here, above }
    }

    /// Returns the ends of a link: the child's and the parent's.
    pub(super) fn ends(&self, child: u32, parent: u32) -> (Waits, Waits) {
        let of = |ends: &BTreeMap<(u32, u32), Waits>| ends.get(&(child, parent)).cloned().unwrap_or_default();
        (of(&self.children), of(&self.parents))
    }
}

impl Shares {
    const UNKNOWN: Shares = Shares { links: 0.0, parents: 0.0, cache: 0.0, shared_fs: 0.0, unknown: 1.0 };

    /// Adds `weight` times `other`.
    fn add(&mut self, weight: f64, other: &Shares) {
        self.links += weight * other.links;
        self.parents += weight * other.parents;
        self.cache += weight * other.cache;
        self.shared_fs += weight * other.shared_fs;
        self.unknown += weight * other.unknown;
    }
}

impl OwnShares {
    /// Returns all shares, if those of the links above are `shares`.
    fn with(&self, shares: &[Shares]) -> Shares {
        let mut all = self.here;
        self.above.iter().for_each(|&(number, part)| all.add(part, &shares[number]));
        all
    }
}

impl Apportioned {
    /// Returns where the requests of a node's processes waited.
    pub(super) fn legs(&self, rank: u32, waits: &Waits) -> Legs {
        let mut sums = Shares::default();
        for &(parent, us) in &waits.parents_us {
            sums.add(us as f64, self.0.get(&(rank, parent)).unwrap_or(&Shares::UNKNOWN));
        }
        Legs {
            wait_us: waits.wait_us,
            node_us: waits.node_us,
            links_us: sums.links.round() as u64,
            parents_us: sums.parents.round() as u64,
            cache_us: waits.cache_us + sums.cache.round() as u64,
            shared_fs_us: waits.shared_fs_us + sums.shared_fs.round() as u64,
            unknown_us: sums.unknown.round() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(rank: u32, relation: Relation, waits: Waits) -> LinkPart {
        LinkPart { rank, relation, sent: Default::default(), received: Default::default(), waits }
    }

    fn part(rank: u32, links: Vec<LinkPart>) -> NodePart {
        NodePart { rank, links, ..NodePart::default() }
    }

    #[test]
    fn waits_are_apportioned_up_to_the_reader() {
        let waits = |wait_us, node_us, shared_fs_us, parents_us: &[(u32, u64)]| Waits {
            wait_us,
            node_us,
            shared_fs_us,
            parents_us: parents_us.to_vec(),
            ..Waits::default()
        };
        let mut upstream = Upstream::default();
        // 2 ← 1 ← 0: of 1,000 at the link of 2, 800 pass at rank 1, which waits 600 for rank 0, and that reads for 300.
        upstream.add(&part(2, vec![link(1, Relation::Parent, waits(1000, 0, 0, &[]))]));
        upstream.add(&part(
            1,
            vec![
                link(2, Relation::Child, waits(800, 200, 0, &[(0, 600)])),
                link(0, Relation::Parent, waits(600, 0, 0, &[])),
            ],
        ));
        upstream.add(&part(0, vec![link(1, Relation::Child, waits(400, 100, 300, &[]))]));
        let apportioned = upstream.apportion();
        let legs = apportioned.legs(2, &waits(2100, 100, 0, &[(1, 2000)]));
        let expected = Legs {
            wait_us: 2100,
            node_us: 100,
            links_us: 400 + 400,
            parents_us: 400 + 200,
            shared_fs_us: 600,
            ..Legs::default()
        };
        assert_eq!(legs, expected);
        let lost = apportioned.legs(2, &waits(50, 0, 0, &[(7, 50)]));
        assert_eq!(lost, Legs { wait_us: 50, unknown_us: 50, ..Legs::default() });
    }

    #[test]
    fn a_circle_ends() {
        let waits = |parent: u32| Waits { wait_us: 10, parents_us: vec![(parent, 10)], ..Waits::default() };
        let mut upstream = Upstream::default();
        for (rank, other) in [(0, 1), (1, 0)] {
            let links = vec![link(other, Relation::Child, waits(other)), link(other, Relation::Parent, waits(other))];
            upstream.add(&part(rank, links));
        }
        assert_eq!(upstream.apportion().legs(0, &waits(1)).unknown_us, 10);
    }

    #[test]
    fn many_nodes_that_are_all_parents_of_each_other_take_little_time() {
        let mut upstream = Upstream::default();
        let others = |rank: u32| (0..64).filter(move |&other| other != rank);
        for rank in 0..64 {
            let waits = || Waits {
                wait_us: 100,
                shared_fs_us: 37,
                parents_us: others(rank).map(|other| (other, 1)).collect(),
                ..Waits::default()
            };
            let ends = |other| [link(other, Relation::Child, waits()), link(other, Relation::Parent, waits())];
            upstream.add(&part(rank, others(rank).flat_map(ends).collect()));
        }
        let legs =
            upstream.apportion().legs(0, &Waits { wait_us: 1000, parents_us: vec![(1, 1000)], ..Waits::default() });
        assert_eq!((legs.shared_fs_us, legs.unknown_us), (1000, 0));
    }
}
