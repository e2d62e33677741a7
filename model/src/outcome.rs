//! The result of a simulation.

use crate::storage::Counts;

/// Receives the completed part of a simulation, from 0 to 1.
pub type Progress<'a> = dyn FnMut(f64) + 'a;

/// The result of a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Until the last process has started.
    pub seconds: f64,
    /// Until the processes of the first node have.
    pub first_seconds: f64,
    /// Until those of half of the nodes have.
    pub median_seconds: f64,
    /// Requests to the shared file system.
    pub counts: Counts,
    /// Messages that simulated nodes received.
    pub messages: u64,
    /// Look-ups that used the source file.
    pub fallbacks: u64,
    /// Bytes of large files that simulated nodes read directly, because that was faster.
    pub direct_bytes: u64,
    /// Events of the simulation.
    pub events: u64,
    /// Nodes that were simulated.
    pub simulated: u32,
}

/// A shard's results.
pub(crate) struct Part {
    pub(crate) ends_ns: Vec<u64>,
    pub(crate) outcome: Outcome,
}

impl Part {
    pub(crate) fn join(mut self, other: Part) -> Part {
        self.ends_ns.extend(other.ends_ns);
        let (a, b) = (&mut self.outcome, other.outcome);
        a.messages += b.messages;
        a.fallbacks += b.fallbacks;
        a.direct_bytes += b.direct_bytes;
        a.events += b.events;
        a.simulated += b.simulated;
        a.counts.opens += b.counts.opens;
        a.counts.lists += b.counts.lists;
        a.counts.stats += b.counts.stats;
        a.counts.bytes += b.counts.bytes;
        self
    }

    /// Returns the results of all shards together.
    pub(crate) fn outcome(mut self) -> Outcome {
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
