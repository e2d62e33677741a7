//! The state of each link, for statistics.

use headwater_proto::{Peer, Rank, Time};

use super::Links;

/// A peer and the state of the link to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// The peer.
    pub peer: Peer,
    /// The peer has proved the key and greeted.
    pub is_up: bool,
    /// Since when that is so.
    pub since: Time,
    /// It goes over libfabric.
    pub is_carried: bool,
    /// Why the last link, or the last attempt to dial, ended. `None` if there was none, or if the link is up.
    pub failure: Option<String>,
}

impl Links {
    /// Returns the state of the links to all parents, and to the children that have or had one. A child that had a link
    /// and is not below this rank in any tree has gone to its own parent, and is left out.
    pub fn states(&self) -> Vec<LinkState> {
        let up = self.by_peer.iter().filter_map(|(&peer, token)| {
            let link = self.links.get(token)?;
            let is_carried = link.stream.is_carried();
            Some(LinkState { peer, is_up: true, since: link.opened_at, is_carried, failure: None })
        });
        let parents = self.dialling.ranks().map(|rank| (Peer::Parent(rank), self.dialling.since(rank)));
        let children = self.ends.iter().filter_map(|(peer, end)| match peer {
            Peer::Child(rank) if self.is_child(rank) => Some((peer, Some(end.at))),
            _ => None,
        });
        let down = parents.chain(children).filter(|(peer, _)| !self.by_peer.contains_key(peer));
        let down = down.map(|(peer, since)| {
            let end = self.ends.of(peer);
            let since = since.or(end.map(|end| end.at)).unwrap_or_default();
            LinkState { peer, is_up: false, since, is_carried: false, failure: end.map(|end| end.cause.clone()) }
        });
        let mut states: Vec<LinkState> = up.chain(down).collect();
        states.sort_by_key(|state| state.peer);
        states
    }

    /// Returns how many ranks are children of this one in any tree while all ranks are alive.
    pub fn children_expected(&self) -> usize {
        let (forest, own) = (&self.identity.forest, self.identity.rank);
        let trees = forest.tree_ids().filter(|&tree| forest.contains(tree, own));
        let mut children: Vec<Rank> = trees.flat_map(|tree| forest.children(tree, own)).collect();
        children.sort_unstable();
        children.dedup();
        children.len()
    }

    fn is_child(&self, rank: Rank) -> bool {
        let (forest, own) = (&self.identity.forest, self.identity.rank);
        forest.tree_ids().any(|tree| forest.contains(tree, rank) && forest.parent(tree, rank) == Some(own))
    }
}
