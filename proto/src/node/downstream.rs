//! Content that the reader has evicted: a child that received it may still have it. The reader then requests
//! it from the child, as that child's child, before it reads the shared file system again.

use alloc::vec::Vec;

use headwater_abi::Path;
use headwater_abi::wire::Message;

use super::Node;
use super::requests::is_content;
use crate::pending::{Key, Route};
use crate::state::parent::{Joined, Link, Parent};
use crate::topology::Up;
use crate::{Output, Peer, Rank};

/// Children that are remembered for each file.
const DOWNSTREAM_SOURCES_MAX: usize = 3;

impl Node {
    /// Notes which children have the content that is being evicted here.
    pub(super) fn note_downstream_sources(&mut self, path: &Path) {
        let joined = self.children.iter().filter(|(_, child)| !child.joined.trees.is_empty());
        let ranks: Vec<Rank> = joined.map(|(&rank, _)| rank).collect();
        let Some(entry) = self.entries.get_mut(path) else { return };
        let blocks = entry.blocks.iter().flat_map(|blocks| blocks.at.values());
        let all_recipients: Vec<_> = blocks.chain([&entry.content_at]).collect();
        let has = |rank: &Rank| all_recipients.iter().any(|recipients| recipients.contains(*rank));
        let downstream_sources: Vec<Rank> = ranks.into_iter().filter(has).take(DOWNSTREAM_SOURCES_MAX).collect();
        entry.downstream_sources = downstream_sources;
    }

    /// Requests from a child what this node would have to read; `None` if no child has it.
    pub(super) fn request_downstream(&mut self, key: &Key) -> Option<Route> {
        let (path, aspect) = key;
        let is_arriving = || self.entries.get(path).is_some_and(|entry| entry.is_arriving());
        if !is_content(*aspect) || is_arriving() {
            return None;
        }
        while let Some(&rank) = self.entries.get(path)?.downstream_sources.first() {
            match self.parents.get(&rank).map(|parent| parent.link) {
                Some(Link::Up) => {
                    let tree = self.home(path, *aspect, None);
                    let (path, aspect) = (path.clone(), *aspect);
                    let message = Message::Want { tree: tree.0, path, aspect, position: 0, only_stored: true };
                    self.send(Peer::Parent(rank), message);
                    return Some(Route::Parent(rank));
                }
                Some(Link::Starting(_) | Link::Away(_)) => return Some(Route::Waiting),
                None if self.children.contains_key(&rank) => {
                    let until = self.now.saturating_add(self.config.limits.probe_ms_max);
                    let joined = Joined::at_first(&self.config.forest, self.config.rank, rank);
                    self.parents.insert(rank, Parent { is_downstream_source: true, ..Parent::starting(until, joined) });
                    self.has_unwanted = true;
                    self.outputs.push_back(Output::Dial { rank });
                    return Some(Route::Waiting);
                }
                _ => self.drop_downstream_source(path, rank),
            }
        }
        None
    }

    /// Returns whether a rank had this when it was evicted here.
    pub(super) fn is_downstream_source_of(&self, path: &Path, rank: Rank) -> bool {
        self.entries.get(path).is_some_and(|entry| entry.downstream_sources.contains(&rank))
    }

    /// Notes that this rank does not have it any more.
    pub(super) fn drop_downstream_source(&mut self, path: &Path, rank: Rank) {
        if let Some(entry) = self.entries.get_mut(path) {
            entry.downstream_sources.retain(|&source| source != rank);
        }
    }

    /// Handles a rank's refusal. True if it was a downstream source: then the next one is asked, or the
    /// reader.
    pub(super) fn downstream_source_declines(&mut self, rank: Rank, key: &Key) -> bool {
        // It may be a parent too. A reader requests nothing from parents, so a rank that has just declined another block
        // of the file was asked as a downstream source.
        let is_reader = self.pending.tree(key).is_some_and(|tree| self.route(key, tree).0 == Up::Reader);
        let is_source = is_reader || self.is_downstream_source_of(&key.0, rank);
        if !is_source || self.pending.route(key) != Some(Route::Parent(rank)) {
            return false;
        }
        self.drop_downstream_source(&key.0, rank);
        self.pending.set_route(key, Route::Waiting);
        self.redispatch();
        true
    }

    /// Removes a downstream source that is lost.
    pub(super) fn forget_downstream_source(&mut self, rank: Rank) {
        if self.parents.get(&rank).is_some_and(|parent| parent.is_downstream_source && parent.link != Link::Up) {
            let before = self.parents.remove(&rank).map(|parent| parent.link);
            if !matches!(before, Some(Link::Banned(_))) {
                self.outputs.push_back(Output::HangUp { rank });
            }
            let downstream_sources: Vec<Path> =
                self.pending.keys_routed(Route::Waiting).into_iter().map(|(path, _)| path).collect();
            downstream_sources.iter().for_each(|path| self.drop_downstream_source(path, rank));
        }
    }
}
