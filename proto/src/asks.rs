//! Questions under way: any number of processes and children that wait for the same knowledge ask
//! for it once.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use headwater_abi::wire::Aspect;
use headwater_abi::{Path, Want};

use crate::{ClientId, Rank, Time};

/// What is asked for.
pub(crate) type Key = (Path, Aspect);

/// A process's request.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) path: Path,
    pub(crate) want: Want,
    /// What it waits for.
    pub(crate) waits_for: Option<Key>,
}

/// A child's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChildWant {
    pub(crate) rank: Rank,
    pub(crate) path: Path,
    pub(crate) aspect: Aspect,
    pub(crate) position: u64,
}

/// Somebody who waits.
#[derive(Clone, Debug)]
pub(crate) enum Waiter {
    Client(ClientId),
    Child(ChildWant),
}

/// One question.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) clients: BTreeSet<ClientId>,
    pub(crate) children: Vec<ChildWant>,
    /// When something last happened to it.
    pub(crate) progress: Time,
    /// False while it waits for a parent that has not come up yet.
    pub(crate) is_sent: bool,
}

/// All questions, by what they ask for.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    by_key: BTreeMap<Key, Ask>,
    /// No question times out before this.
    deadline: Option<Time>,
}

impl Ask {
    /// Those who wait.
    pub(crate) fn waiters(self) -> impl Iterator<Item = Waiter> {
        self.clients.into_iter().map(Waiter::Client).chain(self.children.into_iter().map(Waiter::Child))
    }
}

impl Asks {
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.by_key.contains_key(key)
    }

    pub(crate) fn get_mut(&mut self, key: &Key) -> Option<&mut Ask> {
        self.by_key.get_mut(key)
    }

    pub(crate) fn remove(&mut self, key: &Key) -> Option<Ask> {
        self.by_key.remove(key)
    }

    /// Adds a question without waiters.
    pub(crate) fn insert(&mut self, now: Time, key: Key, is_sent: bool, timeout_ms: u64) {
        let ask = Ask { clients: BTreeSet::new(), children: Vec::new(), progress: now, is_sent };
        self.by_key.insert(key, ask);
        self.deadline.get_or_insert(now.saturating_add(timeout_ms));
    }

    /// Lets `waiter` wait for an existing question.
    pub(crate) fn join(&mut self, key: &Key, waiter: Waiter) {
        let ask = self.by_key.get_mut(key).expect("a question is asked before it is joined");
        match waiter {
            Waiter::Client(client) => {
                ask.clients.insert(client);
            }
            Waiter::Child(want) if !ask.children.contains(&want) => ask.children.push(want),
            Waiter::Child(_) => {}
        }
    }

    /// Content of this path arrives.
    pub(crate) fn note_progress(&mut self, now: Time, path: &Path) {
        for aspect in [Aspect::Loadable, Aspect::Whole] {
            if let Some(ask) = self.by_key.get_mut(&(path.clone(), aspect)) {
                ask.progress = now;
            }
        }
    }

    /// Forgets what a child waits for.
    pub(crate) fn forget_child(&mut self, rank: Rank) {
        for ask in self.by_key.values_mut() {
            ask.children.retain(|want| want.rank != rank);
        }
    }

    /// The questions that `matches`.
    pub(crate) fn keys(&self, matches: impl Fn(&Key, &Ask) -> bool) -> Vec<Key> {
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
        let due = |ask: &Ask| ask.progress.saturating_add(timeout_ms);
        self.deadline = self.by_key.values().map(due).filter(|&due| due > now).min();
        self.keys(|_, ask| due(ask) <= now)
    }
}
