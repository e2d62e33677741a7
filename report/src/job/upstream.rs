//! Which leg took the time: process ← node ← parents ← shared file system.
//!
//! A node knows how long it waited for a parent, and the parent knows what it did meanwhile. So what a node waited for a
//! parent is apportioned as the parent spent the time of this child's requests, and so on up to the reader. Only lengths
//! of time are used, which no clock of another node makes wrong.

use std::collections::HashMap;

use super::part::{LinkPart, NodePart, Relation, Waits};
use super::schema::Legs;

/// The longest way from a node to a reader, in links: nodes that took each other's place may request in a circle.
const LINKS_MAX: u32 = 64;

/// Both ends of all links.
#[derive(Debug, Default)]
pub(super) struct Upstream {
    /// By child and parent: the child's end.
    children: HashMap<(u32, u32), Waits>,
    /// By child and parent: the parent's end.
    parents: HashMap<(u32, u32), Waits>,
    ranks: std::collections::HashSet<u32>,
}

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

    /// Returns where the requests of a node's processes waited.
    pub(super) fn legs(&self, rank: u32, waits: &Waits) -> Legs {
        let mut sums = Sums { node: waits.node_us as f64, ..Sums::default() };
        sums.shared_fs += waits.shared_fs_us as f64;
        sums.cache += waits.cache_us as f64;
        for &(parent, us) in &waits.parents_us {
            self.behind((rank, parent), us as f64, LINKS_MAX, &mut sums);
        }
        Legs {
            wait_us: waits.wait_us,
            node_us: sums.node.round() as u64,
            links_us: sums.links.round() as u64,
            parents_us: sums.parents.round() as u64,
            cache_us: sums.cache.round() as u64,
            shared_fs_us: sums.shared_fs.round() as u64,
            unknown_us: sums.unknown.round() as u64,
        }
    }

    /// Apportions `us` that a child waited for a parent.
    fn behind(&self, (child, parent): (u32, u32), us: f64, links_left: u32, sums: &mut Sums) {
        if links_left == 0 || !self.ranks.contains(&parent) {
            sums.unknown += us;
            return;
        }
        let sent = self.children.get(&(child, parent)).map_or(0, |waits| waits.wait_us) as f64;
        let Some(served) = self.parents.get(&(child, parent)).filter(|waits| waits.wait_us > 0 && sent > 0.0) else {
            sums.links += us;
            return;
        };
        let all = served.wait_us as f64;
        let at_parent = us * (all / sent).min(1.0);
        sums.links += us - at_parent;
        let share = |part: u64| at_parent * part as f64 / all;
        sums.parents += share(served.node_us);
        sums.shared_fs += share(served.shared_fs_us);
        sums.cache += share(served.cache_us);
        for &(next, part) in &served.parents_us {
            self.behind((parent, next), share(part), links_left - 1, sums);
        }
    }

    /// Returns the ends of a link: the child's and the parent's.
    pub(super) fn ends(&self, child: u32, parent: u32) -> (Waits, Waits) {
        let of = |ends: &HashMap<(u32, u32), Waits>| ends.get(&(child, parent)).cloned().unwrap_or_default();
        (of(&self.children), of(&self.parents))
    }
}

#[derive(Debug, Default)]
struct Sums {
    node: f64,
    links: f64,
    parents: f64,
    cache: f64,
    shared_fs: f64,
    unknown: f64,
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
        let legs = upstream.legs(2, &waits(2100, 100, 0, &[(1, 2000)]));
        let expected = Legs {
            wait_us: 2100,
            node_us: 100,
            links_us: 400 + 400,
            parents_us: 400 + 200,
            shared_fs_us: 600,
            ..Legs::default()
        };
        assert_eq!(legs, expected);
        let lost = upstream.legs(2, &waits(50, 0, 0, &[(7, 50)]));
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
        assert_eq!(upstream.legs(0, &waits(1)).unknown_us, 10);
    }
}
