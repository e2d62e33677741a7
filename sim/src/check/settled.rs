//! Properties that hold once nothing has failed for a while.

use std::collections::{BTreeMap, BTreeSet};

use headwater_abi::{Attr, Path};
use headwater_proto::topology::Up;
use headwater_proto::{Peer, Rank};

use super::version_of;
use crate::Violation;
use crate::site::Site;
use crate::violation::{Check, ensure};
use crate::world::World;

impl World {
    /// Checks that no process waits, and that each node is linked to its next hops in the forest.
    pub(crate) fn check_settled(&self) -> Result<(), Violation> {
        for (rank, site) in self.ranks().filter(|(_, site)| site.is_alive) {
            let result = check_answered(site)
                .and_then(|()| self.check_links(rank, site))
                .and_then(|()| self.check_given_up(site))
                .and_then(|()| self.check_load(rank));
            result.map_err(|what| self.violation(rank, what))?;
        }
        // Groups read independently.
        let has_groups = self.forest.trees() > 1 && !self.forest.is_striped();
        if has_groups { Ok(()) } else { self.check_versions() }
    }

    /// Returns the true next hops of a node in all trees.
    fn wanted(&self, rank: Rank) -> BTreeSet<Rank> {
        let is_dead = |rank: Rank| !self.site(rank).is_alive;
        let up = |tree| match self.forest.next_alive(tree, rank, is_dead) {
            Up::To(parent) => Some(parent),
            Up::Reader | Up::Unreachable => None,
        };
        self.forest.tree_ids().filter_map(up).collect()
    }

    fn check_links(&self, rank: Rank, site: &Site) -> Check {
        let wanted = self.wanted(rank);
        for &parent in &wanted {
            let is_up = site.links.contains_key(&Peer::Parent(parent))
                && self.site(parent).links.contains_key(&Peer::Child(rank));
            ensure(is_up, || format!("there is no link to rank {}, which it has to ask", parent.0))?;
        }
        // Beside them, readers are linked to each other.
        let first = |tree| self.forest.candidates(tree).find(|&rank| self.site(rank).is_alive);
        let readers: BTreeSet<Rank> = self.forest.tree_ids().filter_map(first).collect();
        let is_needless = |to: &&Rank| !wanted.contains(to) && !readers.contains(to) && self.site(**to).is_alive;
        let needless = site.dialled.keys().find(is_needless);
        ensure(needless.is_none(), || format!("a link to {needless:?} is up, which it does not need"))
    }

    /// Checks that known facts are the same on all nodes, except for passthrough paths.
    fn check_versions(&self) -> Result<(), Violation> {
        let mut versions: BTreeMap<(u64, &Path), Attr> = BTreeMap::new();
        for (rank, site) in self.ranks().filter(|(_, site)| site.is_alive) {
            for (path, fact) in site.table.facts.iter().filter(|(path, _)| !site.is_passthrough(path)) {
                let Some(attr) = fact.attr() else { continue };
                let attr = version_of(attr);
                let version = *versions.entry((site.table.generation, path)).or_insert(attr);
                let check = ensure(version == attr, || format!("{path} has two versions: {version:?} and {attr:?}"));
                check.map_err(|what| self.violation(rank, what))?;
            }
        }
        Ok(())
    }

    /// Checks that all of a node's facts were true at or after the version of the tree at which a refresh was
    /// requested.
    pub(crate) fn check_refreshed(&self, rank: Rank, wanted_at: usize) -> Check {
        let site = self.site(rank);
        for (path, fact) in site.table.facts.iter().filter(|(path, _)| !site.is_passthrough(path)) {
            let is_new = self.versions_of_tree(wanted_at).any(|tree| self.is_true(tree, path, fact));
            ensure(is_new, || format!("{path} is known as {fact:?} after a refresh"))?;
        }
        Ok(())
    }
}

fn check_answered(site: &Site) -> Check {
    match site.waiting.iter().next() {
        None => Ok(()),
        Some((client, waiting)) => {
            let (path, want, since) = (&waiting.path, waiting.want, waiting.since);
            Err(format!("client {} waits since {since} ms for {path} ({want:?})", client.0))
        }
    }
}
