//! What may happen in a run. Chances are in 1,000.

use crate::random::Random;

/// Limits and faults of a run, as plain data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The most nodes.
    pub nodes_max: u32,
    /// Requests of processes while faults happen.
    pub requests: u64,
    /// Milliseconds over which they are spread.
    pub duration_ms: u64,
    /// Chance that a link is lost, for each of its messages.
    pub link_loss: u64,
    /// Chance, for each message, that its link delivers nothing more in that direction.
    pub silence: u64,
    /// Chance that a message, and what follows it on its link, takes up to six seconds longer.
    pub delay: u64,
    /// Chance that some of a chunk's bytes are corrupted.
    pub corruption: u64,
    /// Chance, for each request, that some node sends wrong bytes for a while.
    pub lie: u64,
    /// Chance, for each request, that some nodes and the others can't reach each other for a while.
    pub partition: u64,
    /// Chance, for each request, that some node pauses for a while, connected and silent.
    pub pause: u64,
    /// Chance, for each request, that some node dies.
    pub death: u64,
    /// Chance that a node dies with its machine, so that its links end in silence.
    pub death_is_silent: u64,
    /// Chance that a dead node is started again.
    pub restart: u64,
    /// Chance that it then restores what it had published.
    pub recovery: u64,
    /// Chance that a node starts up to some seconds late.
    pub late: u64,
    /// Chance that a read of the shared file system fails with EIO.
    pub read_failure: u64,
    /// Chance that a read is never answered.
    pub read_hang: u64,
    /// Chance that the store can't take a piece of content.
    pub store_failure: u64,
    /// Chance, for each request, that some node's store gets another limit.
    pub room: u64,
    /// Chance that an eviction is refused.
    pub evict_refusal: u64,
    /// Chance that a request makes its path a passthrough path.
    pub passthrough: u64,
    /// Chance, for each request, that a file changes on the shared file system, or vanishes.
    pub change: u64,
    /// Chance, for each request, that some user requests a refresh.
    pub refresh: u64,
    /// Chance that a process goes away while it waits.
    pub client_gone: u64,
    /// Whether the shared file system's device has another number on each node.
    pub devices_differ: bool,
    /// Whether stores and tables may be too small for everything.
    pub is_small: bool,
    /// Prints each input and output.
    pub trace: bool,
}

impl Options {
    /// Returns options without faults.
    pub fn calm() -> Options {
        Options { nodes_max: 24, requests: 150, duration_ms: 4000, ..Options::default() }
    }

    /// Draws some faults and their frequency: a run with all of them finds less, since one hides the other
    /// (Groce et al., Swarm Testing, ISSTA'12).
    pub(crate) fn drawn(random: &mut Random) -> Options {
        if random.chance(150) {
            return Options::calm();
        }
        if random.chance(50) {
            return Options { passthrough: 20, ..Options::calm() };
        }
        let mut chance = |rate: u64| if random.chance(400) { 1 + random.below(rate) } else { 0 };
        let drawn = Options {
            link_loss: chance(20),
            silence: chance(4),
            delay: chance(4),
            corruption: chance(30),
            lie: chance(5),
            partition: chance(6),
            pause: chance(10),
            death: chance(15),
            death_is_silent: chance(999),
            restart: 400 + 2 * chance(300),
            recovery: chance(1000),
            late: chance(300),
            read_failure: chance(30),
            read_hang: chance(10),
            store_failure: chance(10),
            room: chance(20),
            evict_refusal: chance(300),
            passthrough: chance(10),
            change: chance(8),
            refresh: chance(12),
            client_gone: chance(60),
            is_small: chance(1) > 0,
            nodes_max: [4, 12, 24, 64][random.below(4) as usize],
            requests: 100 + random.below(500),
            duration_ms: 3000 + random.below(9000),
            ..Options::calm()
        };
        Options { devices_differ: drawn.requests % 2 == 1, ..drawn }
    }

    /// Returns the options after the faults have stopped: some files stay in use.
    pub(crate) fn without_faults(&self) -> Options {
        let Options { nodes_max, requests, duration_ms, evict_refusal, devices_differ, is_small, trace, .. } = *self;
        Options { nodes_max, requests, duration_ms, evict_refusal, devices_differ, is_small, trace, ..Options::calm() }
    }

    /// Returns whether nothing but the program's own requests happens.
    pub(crate) fn is_calm(&self) -> bool {
        *self == Options { evict_refusal: 0, devices_differ: false, is_small: false, ..self.without_faults() }
    }
}
