//! Questions under way: any number of processes and children that wait for the same knowledge ask
//! for it once.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use headwater_abi::wire::Aspect;
use headwater_abi::{Path, Want};

use crate::topology::TreeId;
use crate::{ClientId, Rank, Time};

/// What is asked for.
pub(crate) type Key = (Path, Aspect);

/// A process's request.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) path: Path,
    pub(crate) want: Want,
    /// The block that it wants beyond that.
    pub(crate) block: Option<u32>,
    /// What it last lacked, once that has been counted.
    pub(crate) counted: Option<Aspect>,
    /// What it waits for.
    pub(crate) waits_for: Option<Key>,
    /// It is no process's: see [`crate::Input::Preload`].
    pub(crate) is_ahead: bool,
    /// How often it has waited.
    pub(crate) rounds: u32,
}

/// Children's requests that wait for one question; of more, the oldest is left to be asked again.
const CHILD_WANTS_MAX: usize = 1 << 16;

/// A child's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChildWant {
    pub(crate) rank: Rank,
    /// In which tree it asks.
    pub(crate) tree: TreeId,
    pub(crate) path: Path,
    pub(crate) aspect: Aspect,
    pub(crate) position: u64,
    /// Nobody else is to be asked for it.
    pub(crate) only_stored: bool,
}

impl ChildWant {
    /// Whether the same child asks for the same thing. What differs may wait for one fact.
    fn is_again(&self, other: &ChildWant) -> bool {
        (self.rank, self.tree, self.aspect) == (other.rank, other.tree, other.aspect) && self.path == other.path
    }
}

/// Somebody who waits.
#[derive(Clone, Debug)]
pub(crate) enum Waiter {
    Client(ClientId),
    Child(ChildWant),
}

/// One question.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    pub(crate) clients: BTreeSet<ClientId>,
    pub(crate) children: Vec<ChildWant>,
    /// When something last happened to it.
    pub(crate) progress: Time,
    route: Route,
    /// In which tree it is asked.
    pub(crate) tree: TreeId,
}

/// Where the answer to a question comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// This node's reader has been asked.
    Read,
    /// This parent has been asked.
    Parent(Rank),
    /// A parent will be asked once it has come up.
    Waiting,
    /// The blocks of which it consists.
    Blocks,
    /// The question about all names of its directory.
    Details,
}

/// All questions, by what they ask for.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests {
    /// Boxed, since there are few at a time, and a tree's node has room for eleven.
    by_key: BTreeMap<Key, Box<PendingRequest>>,
    /// How many questions each rank owes an answer to.
    owed: BTreeMap<Rank, usize>,
    /// No question times out before this.
    deadline: Option<Time>,
}

impl PendingRequest {
    /// Those who wait.
    pub(crate) fn waiters(self) -> impl Iterator<Item = Waiter> {
        self.clients.into_iter().map(Waiter::Client).chain(self.children.into_iter().map(Waiter::Child))
    }
}

impl PendingRequests {
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// The most children that wait for one question.
    pub(crate) fn waiting_most(&self) -> usize {
        self.by_key.values().map(|ask| ask.children.len()).max().unwrap_or_default()
    }

    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.by_key.contains_key(key)
    }

    pub(crate) fn get_mut(&mut self, key: &Key) -> Option<&mut PendingRequest> {
        self.by_key.get_mut(key).map(Box::as_mut)
    }

    pub(crate) fn remove(&mut self, key: &Key) -> Option<PendingRequest> {
        let ask = self.by_key.remove(key)?;
        self.count(ask.route, None);
        Some(*ask)
    }

    /// Keeps count of what is owed, as a question's way changes.
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

    /// Adds a question without waiters.
    pub(crate) fn insert(&mut self, now: Time, key: Key, route: Route, tree: TreeId, timeout_ms: u64) {
        let ask =
            Box::new(PendingRequest { clients: BTreeSet::new(), children: Vec::new(), progress: now, route, tree });
        let before = self.by_key.insert(key, ask).map_or(Route::Waiting, |ask| ask.route);
        self.count(before, Some(route));
        self.deadline.get_or_insert(now.saturating_add(timeout_ms));
    }

    /// Lets `waiter` wait for an existing question.
    pub(crate) fn join(&mut self, key: &Key, waiter: Waiter) {
        let ask = self.by_key.get_mut(key).expect("a question is asked before it is joined");
        match waiter {
            Waiter::Client(client) => {
                ask.clients.insert(client);
            }
            Waiter::Child(want) => {
                // Who asks again wants the rest from elsewhere.
                ask.children.retain(|before| !before.is_again(&want));
                if ask.children.len() >= CHILD_WANTS_MAX {
                    ask.children.remove(0);
                }
                ask.children.push(want);
            }
        }
    }

    /// Where its answer comes from, if this is asked.
    pub(crate) fn route(&self, key: &Key) -> Option<Route> {
        self.by_key.get(key).map(|ask| ask.route)
    }

    /// In which tree this is asked.
    pub(crate) fn tree(&self, key: &Key) -> Option<TreeId> {
        self.by_key.get(key).map(|ask| ask.tree)
    }

    /// Whether this rank owes an answer.
    pub(crate) fn is_asked(&self, rank: Rank) -> bool {
        self.owed.contains_key(&rank)
    }

    /// The answer will come from elsewhere. False if this is not asked.
    pub(crate) fn set_route(&mut self, key: &Key, route: Route) -> bool {
        let Some(ask) = self.by_key.get_mut(key) else { return false };
        let before = core::mem::replace(&mut ask.route, route);
        self.count(before, Some(route));
        true
    }

    /// The questions that go this way.
    pub(crate) fn keys_routed(&self, route: Route) -> Vec<Key> {
        self.keys(|_, ask| ask.route == route)
    }

    /// Something of this arrives.
    pub(crate) fn note_progress(&mut self, now: Time, key: &Key) {
        if let Some(ask) = self.by_key.get_mut(key) {
            ask.progress = now;
        }
    }

    /// Forgets what a child waits for.
    pub(crate) fn forget_child(&mut self, rank: Rank) {
        for ask in self.by_key.values_mut() {
            ask.children.retain(|want| want.rank != rank);
        }
    }

    /// The questions about this path.
    pub(crate) fn keys_of(&self, path: &Path) -> impl Iterator<Item = &Key> {
        let (first, last) = ((path.clone(), Aspect::Entry), (path.clone(), Aspect::Block(u32::MAX)));
        self.by_key.range(first..=last).map(|(key, _)| key)
    }

    /// The questions about names of this directory that its details will answer.
    pub(crate) fn detailed(&self, directory: &Path) -> Vec<Key> {
        let is_below = |key: &Key| key.0.is_within(directory);
        let below = self.by_key.range((directory.clone(), Aspect::Entry)..);
        let below = below.take_while(|(key, _)| key.0.as_bytes().starts_with(directory.as_bytes()));
        let detailed = below.filter(|(key, ask)| ask.route == Route::Details && is_below(key));
        detailed.map(|(key, _)| key.clone()).filter(|key| key.0.parent().as_ref() == Some(directory)).collect()
    }

    /// Whether anything is asked about a path below this one.
    pub(crate) fn has_below(&self, path: &Path) -> bool {
        let after = self.by_key.range((path.clone(), Aspect::Block(u32::MAX))..);
        after.take_while(|(key, _)| key.0.as_bytes().starts_with(path.as_bytes())).any(|(key, _)| key.0.is_within(path))
    }

    /// The questions that `matches`.
    pub(crate) fn keys(&self, matches: impl Fn(&Key, &PendingRequest) -> bool) -> Vec<Key> {
        self.by_key.iter().filter(|(key, ask)| matches(key, ask)).map(|(key, _)| key.clone()).collect()
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// The questions that have seen no progress for `timeout_ms`; sets the next deadline.
    pub(crate) fn overdue(&mut self, now: Time, timeout_ms: u64) -> Vec<Key> {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return Vec::new();
        }
        let due = |ask: &PendingRequest| ask.progress.saturating_add(timeout_ms);
        self.deadline = self.by_key.values().map(|ask| due(ask)).filter(|&due| due > now).min();
        self.keys(|_, ask| due(ask) <= now)
    }
}
