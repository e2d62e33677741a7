//! `refresh`: publishes changes to processes that start later.

use std::collections::{BTreeMap, BTreeSet};

use headwater_abi::Path;
use headwater_proto::Time;
use mio::Token;

/// How long changes are collected before a refresh, in milliseconds: an installation changes several paths.
const GATHERING_MS: Time = 1000;
/// Paths that are collected; further changes are noticed when they are used.
const CHANGED_MAX: usize = 1024;

/// Pending refreshes, by the node's number.
#[derive(Debug, Default)]
pub(crate) struct Refreshes {
    pub(crate) waiting: BTreeMap<u64, Token>,
    pub(crate) next: u64,
    /// Changed paths that only a refresh makes available again, and when it is due.
    pub(crate) changed: BTreeSet<Path>,
    pub(crate) due: Option<Time>,
    /// The paths of the automatic refresh that is under way, and its number.
    pub(crate) automatic: Option<(u64, BTreeSet<Path>)>,
}

impl Refreshes {
    /// Notes a changed path for an automatic refresh.
    pub(crate) fn note(&mut self, now: Time, path: Path) {
        if self.changed.len() < CHANGED_MAX {
            self.changed.insert(path);
        }
        self.due.get_or_insert(now + GATHERING_MS);
    }
}
