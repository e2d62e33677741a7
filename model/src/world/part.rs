//! A shard's results.

use crate::outcome::Outcome;

pub(crate) struct Part {
    pub(crate) ends_ns: Vec<u64>,
    pub(crate) outcome: Outcome,
}

impl Part {
    pub(super) fn join(mut self, other: Part) -> Part {
        self.ends_ns.extend(other.ends_ns);
        let (a, b) = (&mut self.outcome, other.outcome);
        a.messages += b.messages;
        a.fallbacks += b.fallbacks;
        a.events += b.events;
        a.simulated += b.simulated;
        a.counts.opens += b.counts.opens;
        a.counts.lists += b.counts.lists;
        a.counts.stats += b.counts.stats;
        a.counts.bytes += b.counts.bytes;
        self
    }

    /// Returns the results of all shards together.
    pub(super) fn outcome(mut self) -> Outcome {
        self.ends_ns.sort_unstable();
        let seconds = |ns: Option<&u64>| ns.map_or(0.0, |&ns| ns as f64 / 1e9);
        Outcome {
            seconds: seconds(self.ends_ns.last()),
            first_seconds: seconds(self.ends_ns.first()),
            median_seconds: seconds(self.ends_ns.get(self.ends_ns.len() / 2)),
            ..self.outcome
        }
    }
}
