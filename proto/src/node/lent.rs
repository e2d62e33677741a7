//! Content that the reader has evicted: a child that was given it may have it still. The reader then turns
//! to it, as its child, before it reads the shared file system again.

use alloc::vec::Vec;

use headwater_abi::Path;
use headwater_abi::wire::Message;

use super::Node;
use super::ask::is_content;
use crate::asks::{Key, Way};
use crate::state::parent::{Joined, Link, Parent};
use crate::{Output, Peer, Rank};

/// Children that are remembered of each file.
const LENT_MAX: usize = 3;

impl Node {
    /// The content of a path is evicted here: remembers who else has it.
    pub(super) fn note_lent(&mut self, path: &Path) {
        let joined = self.children.iter().filter(|(_, child)| !child.joined.trees.is_empty());
        let ranks: Vec<Rank> = joined.map(|(&rank, _)| rank).collect();
        let Some(entry) = self.entries.get_mut(path) else { return };
        let blocks = entry.blocks.iter().flat_map(|blocks| blocks.at.values());
        let all_recipients: Vec<_> = blocks.chain([&entry.content_at]).collect();
        let has = |rank: &Rank| all_recipients.iter().any(|recipients| recipients.contains(*rank));
        let lent: Vec<Rank> = ranks.into_iter().filter(has).take(LENT_MAX).collect();
        entry.lent = lent;
    }

    /// Asks somebody below for what this node would have to read; `None` if there is nobody.
    pub(super) fn ask_below(&mut self, key: &Key) -> Option<Way> {
        let (path, aspect) = key;
        let is_arriving = || self.entries.get(path).is_some_and(|entry| entry.is_arriving());
        if !is_content(*aspect) || is_arriving() {
            return None;
        }
        while let Some(&rank) = self.entries.get(path)?.lent.first() {
            match self.parents.get(&rank).map(|parent| parent.link) {
                Some(Link::Up) => {
                    let tree = self.home(path, *aspect, None);
                    let (path, aspect) = (path.clone(), *aspect);
                    let message = Message::Want { tree: tree.0, path, aspect, position: 0, only_held: true };
                    self.tell(Peer::Parent(rank), message);
                    return Some(Way::Asked(rank));
                }
                Some(Link::Starting(_) | Link::Away(_)) => return Some(Way::Later),
                None if self.children.contains_key(&rank) => {
                    let until = self.now.saturating_add(self.config.limits.probe_ms_max);
                    let joined = Joined::at_first(&self.config.forest, self.config.rank, rank);
                    self.parents.insert(rank, Parent { is_lender: true, ..Parent::starting(until, joined) });
                    self.has_unwanted = true;
                    self.outputs.push_back(Output::Dial { rank });
                    return Some(Way::Later);
                }
                _ => self.not_lent(path, rank),
            }
        }
        None
    }

    /// Whether a rank had this when it was evicted here.
    pub(super) fn is_lent(&self, path: &Path, rank: Rank) -> bool {
        self.entries.get(path).is_some_and(|entry| entry.lent.contains(&rank))
    }

    /// This rank has it no more.
    pub(super) fn not_lent(&mut self, path: &Path, rank: Rank) {
        if let Some(entry) = self.entries.get_mut(path) {
            entry.lent.retain(|&lender| lender != rank);
        }
    }

    /// A rank can't answer. True if it was one of those below: then the next is asked, or the reader.
    pub(super) fn lender_declines(&mut self, rank: Rank, key: &Key) -> bool {
        // It may be a parent beside that.
        if !self.is_lent(&key.0, rank) || self.asks.way(key) != Some(Way::Asked(rank)) {
            return false;
        }
        self.not_lent(&key.0, rank);
        self.asks.set_way(key, Way::Later);
        self.redispatch();
        true
    }

    /// A lender is lost: it is nobody's parent.
    pub(super) fn forget_lender(&mut self, rank: Rank) {
        if self.parents.get(&rank).is_some_and(|parent| parent.is_lender && parent.link != Link::Up) {
            let before = self.parents.remove(&rank).map(|parent| parent.link);
            if !matches!(before, Some(Link::Banned(_))) {
                self.outputs.push_back(Output::HangUp { rank });
            }
            let lent: Vec<Path> = self.asks.keys_by(Way::Later).into_iter().map(|(path, _)| path).collect();
            lent.iter().for_each(|path| self.not_lent(path, rank));
        }
    }
}
