//! The push policy: which children get what they have not requested.
//!
//! *Adaptive* starts with pull. As soon as half of a node's children, and at least two, have requested the same thing, the
//! other children get it too. The thing is *decided* then, or, against a majority, [`DECISION_MS`] after it
//! was obtained. While at least [`AGREED_MIN`] of the last [`WINDOW`] decisions were for a majority, new
//! things are pushed at once. One in [`PROBE_EVERY`], at random, is not pushed, so that a change of the
//! demand is noticed.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use headwater_abi::Path;

use crate::{Policy, Rank, Time};

const WINDOW: usize = 32;
const AGREED_MIN: usize = WINDOW * 3 / 4;
const PROBE_EVERY: u64 = 8;
const DECISION_MS: Time = 1000;
const UNDECIDED_MAX: usize = 1024;

/// A fact or content that children request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Thing {
    /// The fact about a path.
    Fact(Path),
    /// A file's content, or one block of it.
    Content(Path, Option<u32>),
}

/// Children that have a thing, are being sent it, or have requested it.
#[derive(Debug)]
pub(crate) enum Recipients {
    All,
    /// Ascending.
    Some(Vec<Rank>),
}

impl Default for Recipients {
    fn default() -> Recipients {
        Recipients::Some(Vec::new())
    }
}

impl Recipients {
    pub(crate) fn contains(&self, rank: Rank) -> bool {
        match self {
            Recipients::All => true,
            Recipients::Some(ranks) => ranks.binary_search(&rank).is_ok(),
        }
    }

    pub(crate) fn insert(&mut self, rank: Rank) {
        if let Recipients::Some(ranks) = self
            && let Err(at) = ranks.binary_search(&rank)
        {
            ranks.insert(at, rank);
        }
    }

    /// From now on all children count as recipients.
    pub(crate) fn insert_all(&mut self) {
        *self = Recipients::All;
    }

    /// Returns how many have requested it; `None` once it was pushed to all.
    pub(crate) fn count(&self) -> Option<usize> {
        match self {
            Recipients::All => None,
            Recipients::Some(ranks) => Some(ranks.len()),
        }
    }
}

/// The policy and its statistics.
#[derive(Debug)]
pub(crate) struct PushPolicy {
    policy: Policy,
    decisions: VecDeque<bool>,
    /// How many of them were for a majority.
    agreed: usize,
    undecided: BTreeSet<Thing>,
    waiting: VecDeque<(Time, Thing)>,
    /// State of the generator that chooses the probes.
    random: u64,
}

impl PushPolicy {
    pub(crate) fn new(policy: Policy, seed: u64) -> PushPolicy {
        PushPolicy {
            policy,
            decisions: VecDeque::new(),
            agreed: 0,
            undecided: BTreeSet::new(),
            waiting: VecDeque::new(),
            random: seed,
        }
    }

    /// Returns whether a new thing is to be pushed to all children.
    pub(crate) fn pushes_new(&mut self, now: Time) -> bool {
        match self.policy {
            Policy::Push => true,
            Policy::Pull => false,
            Policy::Adaptive => {
                self.expire(now);
                if self.decisions.len() < WINDOW || self.agreed < AGREED_MIN {
                    return false;
                }
                !self.random().is_multiple_of(PROBE_EVERY)
            }
        }
    }

    /// Returns whether this number of requests is to be counted (`None`: all have it).
    pub(crate) fn counts(&self, requested: Option<usize>) -> bool {
        self.policy == Policy::Adaptive && requested.is_some()
    }

    /// Counts a child's request for `thing`, the `requested`-th of `children` (`None`: all have it). True if the
    /// others are to get it.
    pub(crate) fn requested(&mut self, now: Time, thing: Thing, requested: Option<usize>, children: usize) -> bool {
        let (Policy::Adaptive, Some(requested)) = (self.policy, requested) else { return false };
        if requested >= children.div_ceil(2).max(2) {
            if self.undecided.remove(&thing) {
                self.decide(true);
            }
            return true;
        }
        if requested == 1 && self.undecided.len() < UNDECIDED_MAX && self.undecided.insert(thing.clone()) {
            self.waiting.push_back((now, thing));
        }
        false
    }

    fn expire(&mut self, now: Time) {
        while self.waiting.front().is_some_and(|(since, _)| now.saturating_sub(*since) >= DECISION_MS) {
            if let Some((_, thing)) = self.waiting.pop_front()
                && self.undecided.remove(&thing)
            {
                self.decide(false);
            }
        }
    }

    /// SplitMix64 (Steele, Lea and Flood, OOPSLA'14).
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn decide(&mut self, majority: bool) {
        if self.decisions.len() == WINDOW {
            self.agreed -= usize::from(self.decisions.pop_front() == Some(true));
        }
        self.agreed += usize::from(majority);
        self.decisions.push_back(majority);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn thing(number: u64) -> Thing {
        Thing::Fact(Path::new(format!("/{number}").as_bytes()).unwrap())
    }

    #[test]
    fn adaptive_pushes_while_majorities_agree() {
        let mut push_policy = PushPolicy::new(Policy::Adaptive, 1);
        for number in 0..WINDOW as u64 {
            assert!(!push_policy.pushes_new(0));
            assert!(!push_policy.requested(0, thing(number), Some(1), 4));
            assert!(push_policy.requested(0, thing(number), Some(2), 4));
        }
        let pushed = (0..800).filter(|_| push_policy.pushes_new(0)).count();
        assert!((600..800).contains(&pushed), "{pushed} of 800 were pushed, but for the probes");
        for number in 100..109 {
            assert!(!push_policy.requested(1, thing(number), Some(1), 4));
        }
        assert!((0..100).any(|_| push_policy.pushes_new(2)), "nothing is decided against a majority yet");
        assert!((0..100).all(|_| !push_policy.pushes_new(1 + DECISION_MS)), "9 of the last 32 found no majority");
    }

    #[test]
    fn one_child_is_no_majority() {
        let mut push_policy = PushPolicy::new(Policy::Adaptive, 1);
        assert!(!push_policy.requested(0, thing(0), Some(1), 1));
        assert!(!PushPolicy::new(Policy::Pull, 1).requested(0, thing(0), Some(5), 5));
        assert!(PushPolicy::new(Policy::Push, 1).pushes_new(0));
    }
}
