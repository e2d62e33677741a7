//! What may happen in a run. Chances are in 1,000.

/// Bounds and faults of a run, as plain data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The most nodes.
    pub nodes_max: u32,
    /// Requests of processes while faults happen.
    pub requests: u64,
    /// Milliseconds over which they are spread.
    pub duration_ms: u64,
    /// Chance that a link is lost, for each of its messages.
    pub link_loss: u64,
    /// Chance, for each request, that some node but the root dies.
    pub node_death: u64,
    /// Chance that a read of the shared file system fails with EIO.
    pub read_failure: u64,
    /// Chance that a read is never answered.
    pub read_hang: u64,
    /// Chance that the store can't take a piece of content.
    pub store_failure: u64,
    /// Chance that an eviction is refused.
    pub evict_refusal: u64,
    /// Chance that a request makes its path live.
    pub live: u64,
    /// Chance, for each request, that a file changes on the shared file system, or vanishes.
    pub change: u64,
    /// Chance that a process goes away while it waits.
    pub client_gone: u64,
    /// Whether stores may be too small for everything.
    pub small_stores: bool,
    /// Prints each input and output.
    pub trace: bool,
}

impl Options {
    /// Nothing fails.
    pub fn calm() -> Options {
        Options {
            nodes_max: 16,
            requests: 150,
            duration_ms: 4000,
            link_loss: 0,
            node_death: 0,
            read_failure: 0,
            read_hang: 0,
            store_failure: 0,
            evict_refusal: 0,
            live: 0,
            change: 0,
            client_gone: 0,
            small_stores: false,
            trace: false,
        }
    }

    /// Everything may fail.
    pub fn stormy() -> Options {
        Options {
            nodes_max: 64,
            requests: 400,
            link_loss: 20,
            node_death: 5,
            read_failure: 30,
            read_hang: 10,
            store_failure: 10,
            evict_refusal: 200,
            live: 10,
            change: 5,
            client_gone: 50,
            small_stores: true,
            ..Options::calm()
        }
    }

    /// Whether nothing but the program's own requests happens.
    pub(crate) fn is_calm(&self) -> bool {
        let trace = self.trace;
        let (nodes_max, requests, duration_ms) = (self.nodes_max, self.requests, self.duration_ms);
        *self == Options { nodes_max, requests, duration_ms, trace, ..Options::calm() }
    }
}
