//! Routes of requests: in each tree to the nearest ancestor that is alive in this node's view.
//! [`Forest::next_alive`](crate::Forest::next_alive) shows why no cycle can form.
//!
//! A path's reader is the root of the path's own tree, its *home*. A large file's block goes down another
//! tree. Its root reads the block itself, except for a file's first blocks: these it requests from the file's
//! reader, in the home tree.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use headwater_abi::hash;
use headwater_abi::wire::{Aspect, Message};
use headwater_abi::{Path, wire};

use super::Node;
use crate::pending::{Key, Route};
use crate::state::parent::{Joined, Link, Parent, control_tree};
use crate::topology::{TreeId, Up};
use crate::{Output, Peer, Rank};

impl Node {
    /// Returns this node's next hop in a tree.
    pub(super) fn up_in(&self, tree: TreeId) -> Up {
        self.ups.get(tree.0 as usize).copied().flatten().unwrap_or(Up::Unreachable)
    }

    fn is_dead(&self, rank: Rank) -> bool {
        self.parents.get(&rank).is_some_and(|parent| matches!(parent.link, Link::Dead | Link::Banned(_)))
    }

    /// Returns the first candidate of a tree that is alive.
    pub(super) fn reader_of(&self, tree: TreeId) -> Up {
        let own = self.config.rank;
        match self.config.forest.candidates(tree).find(|&rank| rank == own || !self.is_dead(rank)) {
            Some(rank) if rank == own => Up::Reader,
            Some(rank) => Up::To(rank),
            None => Up::Unreachable,
        }
    }

    /// Returns the next hop for what all nodes have to know.
    pub(super) fn control(&self) -> Up {
        let tree = control_tree(&self.config.forest, self.config.rank);
        match self.up_in(tree) {
            Up::Reader if tree != TreeId(0) => self.reader_of(TreeId(0)),
            up => up,
        }
    }

    /// Returns the control parent, if its link is up.
    pub(super) fn control_parent(&self) -> Option<Rank> {
        match self.control() {
            Up::To(rank) if self.is_up(rank) => Some(rank),
            _ => None,
        }
    }

    pub(super) fn is_up(&self, rank: Rank) -> bool {
        self.parents.get(&rank).is_some_and(|parent| parent.link == Link::Up)
    }

    /// Returns the tree whose root reads what is requested. Groups have trees of their own: there it is the
    /// tree in which it was `requested`, if any.
    pub(super) fn home(&self, path: &Path, aspect: Aspect, requested: Option<TreeId>) -> TreeId {
        let forest = &self.config.forest;
        match (requested, aspect.block()) {
            (Some(tree), _) if !forest.is_striped() => tree,
            (_, Some(block)) if block >= self.config.limits.striped_block_min => self.tree_of(path, aspect),
            _ => forest.tree_of_path(self.config.rank, hash_of(path, aspect)),
        }
    }

    /// Returns the tree in which something is requested.
    pub(super) fn tree_of(&self, path: &Path, aspect: Aspect) -> TreeId {
        let (forest, own, hash) = (&self.config.forest, self.config.rank, hash_of(path, aspect));
        match aspect.block() {
            Some(block) => forest.tree_of_chunk(own, hash, block.into()),
            None => forest.tree_of_path(own, hash),
        }
    }

    /// Returns whether this node reads this from the shared file system itself.
    pub(super) fn is_reader_of(&self, path: &Path, aspect: Aspect) -> bool {
        match self.config.forest.is_striped() {
            true => self.up_in(self.home(path, aspect, None)) == Up::Reader,
            false => self.ups.contains(&Some(Up::Reader)),
        }
    }

    /// Returns the next hop of a request in `tree`, and the tree in which to send it.
    pub(super) fn route(&self, (path, aspect): &Key, tree: TreeId) -> (Up, TreeId) {
        let home = self.home(path, *aspect, Some(tree));
        match self.up_in(tree) {
            _ if self.up_in(home) == Up::Reader => (Up::Reader, home),
            // From the top of the block's tree to the file's reader.
            Up::Reader => (self.reader_of(home), home),
            up => (up, tree),
        }
    }

    /// Computes the next hops, makes and ends links accordingly, and notifies the parents.
    pub(super) fn reroute(&mut self) {
        let forest = self.config.forest;
        let own = self.config.rank;
        let up = |tree| forest.contains(tree, own).then(|| forest.next_alive(tree, own, |rank| self.is_dead(rank)));
        let ups = forest.tree_ids().map(up).collect();
        let before = core::mem::replace(&mut self.ups, ups);
        let is_other =
            |(tree, before): &(TreeId, &Option<Up>)| before.is_some() && **before != self.ups[tree.0 as usize];
        let others: Vec<TreeId> = forest.tree_ids().zip(&before).filter(is_other).map(|(tree, _)| tree).collect();
        let is_new = |(before, after): (&Option<Up>, &Option<Up>)| before != after && *after == Some(Up::Reader);
        if before.iter().zip(&self.ups).any(is_new) {
            // Others may have read what is unknown here.
            self.refresh.may_have_forgotten = true;
        }
        self.unsettle(others);
        let mut wanted: BTreeSet<Rank> = BTreeSet::new();
        let mut want = |up: Up| {
            if let Up::To(rank) = up {
                wanted.insert(rank);
            }
        };
        for (tree, up) in forest.tree_ids().zip(&self.ups) {
            let Some(Up::To(rank)) = *up else { continue };
            want(Up::To(rank));
            // If the next may be lost too, all are dialled at once.
            if forest.parent(tree, own) != Some(rank) && !self.is_up(rank) {
                let candidates = forest.candidates(tree).take_while(|&candidate| candidate != own);
                forest.ancestors(tree, own).chain(candidates).map(Up::To).for_each(&mut want);
            }
        }
        want(self.control());
        if forest.is_striped() && self.ups.contains(&Some(Up::Reader)) {
            forest.tree_ids().map(|tree| self.reader_of(tree)).for_each(&mut want);
        }
        if self.children.values().any(|child| child.joined.is_reader) {
            want(self.reader_of(TreeId(0)));
        }
        let has_lost_one = self.parents.values().any(|parent| matches!(parent.link, Link::Dead | Link::Away(_)));
        for &rank in &wanted {
            if let Some(parent) = self.parents.get_mut(&rank) {
                parent.is_downstream_source = false;
            } else {
                let joined = Joined::at_first(&forest, own, rank);
                // At first it may not have been started; later it answers at once if it can. The successor of
                // a lost rank has been started.
                let limits = &self.config.limits;
                let starting_ms_max = if has_lost_one { 0 } else { limits.starting_ms_max };
                let until = starting_ms_max.max(self.now.saturating_add(limits.probe_ms_max));
                self.parents.insert(rank, Parent::starting(until, joined));
                self.outputs.push_back(Output::Dial { rank });
            }
        }
        for (rank, parent) in &mut self.parents {
            parent.is_wanted = wanted.contains(rank);
        }
        self.has_unwanted = true;
        self.hang_up_idle();
        self.join_all();
    }

    /// Ends links that are no longer needed, once they owe nothing.
    pub(super) fn hang_up_idle(&mut self) {
        if !self.has_unwanted {
            return;
        }
        let is_idle = |rank: &Rank, parent: &Parent| {
            let is_dead = matches!(parent.link, Link::Dead | Link::Banned(_));
            let is_starting = parent.is_downstream_source && parent.link != Link::Up;
            !parent.is_wanted
                && !is_dead
                && !is_starting
                && !self.pending.owes_answer(*rank)
                && parent.incoming.is_empty()
        };
        let idle: Vec<Rank> = self.parents.iter().filter(|(r, p)| is_idle(r, p)).map(|(rank, _)| *rank).collect();
        for rank in idle {
            self.parents.remove(&rank);
            self.forget_confirmations(Peer::Parent(rank));
            self.outputs.push_back(Output::HangUp { rank });
        }
        self.has_unwanted = self.parents.values().any(|parent| !parent.is_wanted);
    }

    /// Reports to each parent the trees in which it is one.
    fn join_all(&mut self) {
        let is_server = self.config.rank.0 < self.config.forest.servers();
        let (control, first) = (self.control(), self.reader_of(TreeId(0)));
        // A child that has lost the first reader, and reads, takes this node for it.
        let is_reader =
            self.ups.contains(&Some(Up::Reader)) || self.children.values().any(|child| child.joined.is_reader);
        let up: Vec<Rank> = self.parents.iter().filter(|(_, p)| p.link == Link::Up).map(|(rank, _)| *rank).collect();
        for rank in up {
            let trees = self.config.forest.tree_ids().filter(|_| !is_server);
            let trees = trees.filter(|&tree| self.up_in(tree) == Up::To(rank)).take(wire::TREES_MAX).collect();
            let is_reader = is_reader && first == Up::To(rank);
            let joined = Joined { trees, is_control: control == Up::To(rank), is_reader };
            let Some(parent) = self.parents.get_mut(&rank).filter(|parent| parent.joined != joined) else { continue };
            let is_new_control = joined.is_control && !parent.joined.is_control;
            parent.joined = joined.clone();
            let trees = joined.trees.iter().map(|tree| tree.0).collect();
            self.send(Peer::Parent(rank), Message::Join { trees, is_control: joined.is_control, is_reader });
            if is_new_control {
                self.send_passthrough_paths(Peer::Parent(rank));
            }
        }
    }

    /// Sends requests that wait for a route, or fails them.
    pub(super) fn redispatch(&mut self) {
        for key in self.pending.keys_routed(Route::Waiting) {
            let Some(tree) = self.pending.tree(&key) else { continue };
            if self.entries.get(&key.0).is_none() && self.listed_absent_in(&key.0).is_some() {
                // Its directory has been read since.
                self.release(&key);
                continue;
            }
            match self.dispatch(&key, tree) {
                Some(route) => drop(self.pending.set_route(&key, route)),
                None => self.fail(&key),
            }
        }
    }
}

/// Facts about a directory's names are distributed with the directory, content by its own name.
fn hash_of(path: &Path, aspect: Aspect) -> u64 {
    match aspect {
        Aspect::Entry => path.parent_bytes().map_or_else(|| path.hash(), hash::bytes),
        _ => path.hash(),
    }
}
