//! `refresh`: what has changed is published to processes that start later.

use std::collections::{BTreeMap, BTreeSet};

use headwater_abi::Path;
use headwater_proto::Time;
use mio::Token;

/// How long changes are gathered before they are taken in, in milliseconds: who installs something changes
/// several things.
const GATHERING_MS: Time = 1000;
/// Paths that are gathered; more show up when they are used.
const CHANGED_MAX: usize = 1024;

/// Refreshes that are under way, by the node's number for them.
#[derive(Debug, Default)]
pub(crate) struct Refreshes {
    pub(crate) waiting: BTreeMap<u64, Token>,
    pub(crate) next: u64,
    /// What was found changed, where nothing but a refresh makes it of use again; and when that is asked for.
    pub(crate) changed: BTreeSet<Path>,
    pub(crate) due: Option<Time>,
    /// What was asked for so, and the request's number.
    pub(crate) automatic: Option<(u64, BTreeSet<Path>)>,
}

impl Refreshes {
    /// This path has been found changed, and is to be refreshed without being asked for.
    pub(crate) fn note(&mut self, now: Time, path: Path) {
        if self.changed.len() < CHANGED_MAX {
            self.changed.insert(path);
        }
        self.due.get_or_insert(now + GATHERING_MS);
    }

    /// When to ask for a refresh of what was found changed.
    pub(crate) fn due(&self) -> Option<Time> {
        self.due
    }
}
