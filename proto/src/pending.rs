//! Pending requests: processes and children that wait for the same knowledge share one request.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use headwater_abi::wire::Aspect;
use headwater_abi::{Path, Want};

use crate::topology::TreeId;
use crate::{ClientId, Rank, Time};

/// What is requested.
pub(crate) type Key = (Path, Aspect);

/// A process's request.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) path: Path,
    pub(crate) want: Want,
    /// The block that it needs beyond that.
    pub(crate) block: Option<u32>,
    /// The last aspect that it lacked, once that has been counted.
    pub(crate) counted: Option<Aspect>,
    /// What it waits for.
    pub(crate) waits_for: Option<Key>,
    /// True if the driver preloads for it: see [`crate::Input::Preload`].
    pub(crate) is_ahead: bool,
    pub(crate) rounds: u32,
}

/// Children that may wait for one request; beyond that, the oldest is dropped and has to repeat its request.
const CHILD_WANTS_MAX: usize = 1 << 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChildWant {
    pub(crate) rank: Rank,
    /// The tree in which the request came.
    pub(crate) tree: TreeId,
    pub(crate) path: Path,
    pub(crate) aspect: Aspect,
    pub(crate) position: u64,
    /// The child is to get only what is stored here.
    pub(crate) only_stored: bool,
}

impl ChildWant {
    /// Returns whether the same child requests the same thing, from another position or about another path.
    fn is_again(&self, other: &ChildWant) -> bool {
        (self.rank, self.tree, self.aspect) == (other.rank, other.tree, other.aspect) && self.path == other.path
    }
}

/// A client or child that waits for a pending request.
#[derive(Clone, Debug)]
pub(crate) enum Waiter {
    Client(ClientId),
    Child(ChildWant),
}

#[derive(Debug)]
pub(crate) struct PendingRequest {
    pub(crate) clients: BTreeSet<ClientId>,
    pub(crate) children: Vec<ChildWant>,
    /// When the last progress was seen.
    pub(crate) progress: Time,
    route: Route,
    /// The tree in which it is sent.
    pub(crate) tree: TreeId,
}

/// The source of a pending request's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// This node's reader.
    Read,
    /// This node's cache.
    Cache,
    /// This parent.
    Parent(Rank),
    /// A parent that is not up yet.
    Waiting,
    /// The file's blocks, which are being downloaded.
    Blocks,
    /// The request for the details of its directory.
    Details,
}

/// All pending requests, by what they are about.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests {
    /// Boxed, since there are few at a time, and a tree's node has room for eleven.
    by_key: BTreeMap<Key, Box<PendingRequest>>,
    /// Number of answers that each rank owes.
    owed: BTreeMap<Rank, usize>,
    /// No request times out before this.
    deadline: Option<Time>,
}

impl PendingRequest {
    /// Returns all that wait.
    pub(crate) fn waiters(self) -> impl Iterator<Item = Waiter> {
        self.clients.into_iter().map(Waiter::Client).chain(self.children.into_iter().map(Waiter::Child))
    }
}

impl PendingRequests {
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Returns the largest number of children that wait for one request.
    pub(crate) fn waiting_most(&self) -> usize {
        self.by_key.values().map(|request| request.children.len()).max().unwrap_or_default()
    }

    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.by_key.contains_key(key)
    }

    pub(crate) fn get_mut(&mut self, key: &Key) -> Option<&mut PendingRequest> {
        self.by_key.get_mut(key).map(Box::as_mut)
    }

    pub(crate) fn remove(&mut self, key: &Key) -> Option<PendingRequest> {
        let request = self.by_key.remove(key)?;
        self.count(request.route, None);
        Some(*request)
    }

    /// Updates the number of answers owed when a request's route changes.
    fn count(&mut self, before: Route, after: Option<Route>) {
        if let Route::Parent(rank) = before
            && let Some(owed) = self.owed.get_mut(&rank)
        {
            *owed -= 1;
            if *owed == 0 {
                self.owed.remove(&rank);
            }
        }
        if let Some(Route::Parent(rank)) = after {
            *self.owed.entry(rank).or_default() += 1;
        }
    }

    pub(crate) fn insert(&mut self, now: Time, key: Key, route: Route, tree: TreeId, timeout_ms: u64) {
        let request =
            Box::new(PendingRequest { clients: BTreeSet::new(), children: Vec::new(), progress: now, route, tree });
        let before = self.by_key.insert(key, request).map_or(Route::Waiting, |request| request.route);
        self.count(before, Some(route));
        self.deadline.get_or_insert(now.saturating_add(timeout_ms));
    }

    /// Lets `waiter` wait for a request that is pending.
    pub(crate) fn join(&mut self, key: &Key, waiter: Waiter) {
        let request = self.by_key.get_mut(key).expect("a request is pending before it is joined");
        match waiter {
            Waiter::Client(client) => {
                request.clients.insert(client);
            }
            Waiter::Child(want) => {
                // A repeated request is for the rest, from elsewhere.
                request.children.retain(|before| !before.is_again(&want));
                if request.children.len() >= CHILD_WANTS_MAX {
                    request.children.remove(0);
                }
                request.children.push(want);
            }
        }
    }

    /// Returns the route of the request, if it is pending.
    pub(crate) fn route(&self, key: &Key) -> Option<Route> {
        self.by_key.get(key).map(|request| request.route)
    }

    /// Returns the tree in which this was requested.
    pub(crate) fn tree(&self, key: &Key) -> Option<TreeId> {
        self.by_key.get(key).map(|request| request.tree)
    }

    pub(crate) fn owes_answer(&self, rank: Rank) -> bool {
        self.owed.contains_key(&rank)
    }

    /// Changes the source of the answer. False if the request is not pending.
    pub(crate) fn set_route(&mut self, key: &Key, route: Route) -> bool {
        let Some(request) = self.by_key.get_mut(key) else { return false };
        let before = core::mem::replace(&mut request.route, route);
        self.count(before, Some(route));
        true
    }

    pub(crate) fn keys_routed(&self, route: Route) -> Vec<Key> {
        self.keys(|_, request| request.route == route)
    }

    /// Notes that a part of the answer has arrived.
    pub(crate) fn note_progress(&mut self, now: Time, key: &Key) {
        if let Some(request) = self.by_key.get_mut(key) {
            request.progress = now;
        }
    }

    pub(crate) fn forget_child(&mut self, rank: Rank) {
        for request in self.by_key.values_mut() {
            request.children.retain(|want| want.rank != rank);
        }
    }

    pub(crate) fn keys_of(&self, path: &Path) -> impl Iterator<Item = &Key> {
        let (first, last) = ((path.clone(), Aspect::Entry), (path.clone(), Aspect::Block(u32::MAX)));
        self.by_key.range(first..=last).map(|(key, _)| key)
    }

    /// Returns the requests about names of this directory that its details will answer.
    pub(crate) fn detailed(&self, directory: &Path) -> Vec<Key> {
        let after = self.by_key.range((directory.clone(), Aspect::Entry)..);
        let below = after.take_while(|(key, _)| key.0.as_bytes().starts_with(directory.as_bytes()));
        let detailed = below.filter(|(_, request)| request.route == Route::Details).map(|(key, _)| key);
        detailed.filter(|key| key.0.parent().as_ref() == Some(directory)).cloned().collect()
    }

    /// Returns whether a request about a path below this one is pending.
    pub(crate) fn has_below(&self, path: &Path) -> bool {
        let after = self.by_key.range((path.clone(), Aspect::Block(u32::MAX))..);
        after.take_while(|(key, _)| key.0.as_bytes().starts_with(path.as_bytes())).any(|(key, _)| key.0.is_within(path))
    }

    /// Returns the requests that `matches` accepts.
    pub(crate) fn keys(&self, matches: impl Fn(&Key, &PendingRequest) -> bool) -> Vec<Key> {
        self.by_key.iter().filter(|(key, request)| matches(key, request)).map(|(key, _)| key.clone()).collect()
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// Returns the requests without progress for `timeout_ms`, and sets the next deadline.
    pub(crate) fn overdue(&mut self, now: Time, timeout_ms: u64) -> Vec<Key> {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return Vec::new();
        }
        let due = |request: &PendingRequest| request.progress.saturating_add(timeout_ms);
        self.deadline = self.by_key.values().map(|request| due(request)).filter(|&due| due > now).min();
        self.keys(|_, request| due(request) <= now)
    }
}
