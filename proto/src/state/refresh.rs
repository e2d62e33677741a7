//! A node's generations, and a check for changes in progress.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use headwater_abi::Path;
use headwater_abi::wire::Change;

use crate::Rank;
use crate::pending::Key;

/// The rank that requested a refresh, and its number for the request.
pub(crate) type Requester = (u32, u64);

/// A node's generation and refreshes.
#[derive(Debug, Default)]
pub(crate) struct Refresh {
    pub(crate) generation: u64,
    /// Other nodes may know what this node does not, though it is the reader.
    pub(crate) may_have_forgotten: bool,
    /// The root's check of what it knows.
    pub(crate) checking: Option<Checking>,
    /// What was requested meanwhile: it may be about changes after the check.
    pub(crate) next: Option<Demand>,
    /// Pending requests of this node.
    pub(crate) requests: BTreeSet<u64>,
    /// Announced by the parent so far.
    pub(crate) announced: Vec<Change>,
    /// The number of the last check that other readers were asked for.
    pub(crate) check: u64,
    /// Bytes of content that older generations retain in the store.
    pub(crate) retained_bytes: BTreeMap<u64, u64>,
}

/// What is to be refreshed, and for which ranks.
#[derive(Debug)]
pub(crate) struct Demand {
    /// All paths if it is empty.
    pub(crate) paths: Vec<Path>,
    pub(crate) requesters: Vec<Requester>,
}

/// A check of what may have changed.
#[derive(Debug)]
pub(crate) struct Checking {
    pub(crate) demand: Demand,
    pub(crate) todo: VecDeque<Path>,
    pub(crate) in_flight: BTreeSet<Path>,
    /// Requests whose answers are to be checked when they have come.
    pub(crate) awaited: BTreeSet<Key>,
    /// By path: whether it is still the same directory.
    pub(crate) changes: BTreeMap<Path, bool>,
    /// Other readers that check what they know.
    pub(crate) readers: BTreeSet<Rank>,
    /// Some changes may be unknown.
    pub(crate) is_partial: bool,
    /// The rank that gets the result, and its number for it; `None` if this node begins generations itself.
    pub(crate) answers: Option<(Rank, u64)>,
}

impl Refresh {
    /// Returns the state in the first generation.
    pub(crate) fn new() -> Refresh {
        Refresh { generation: 1, ..Refresh::default() }
    }
}

impl Demand {
    /// Returns whether this is to be checked. A path's directory shows whether the path exists.
    pub(crate) fn covers(&self, path: &Path) -> bool {
        let covers = |root: &Path| path.is_within(root) || root.parent().is_some_and(|directory| directory == *path);
        self.paths.is_empty() || self.paths.iter().any(covers)
    }

    /// Adds what else is to be refreshed.
    pub(crate) fn merge(&mut self, other: Demand) {
        if self.paths.is_empty() || other.paths.is_empty() {
            self.paths.clear();
        } else {
            self.paths.extend(other.paths);
        }
        self.requesters.extend(other.requesters);
    }
}
