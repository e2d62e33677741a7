//! What a daemon did, as one line of JSON at its end.

pub use headwater_mount::Counts as Mount;
pub use headwater_reader::SharedFs;
use serde::{Deserialize, Serialize};

/// A node's share of the session's summary.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Work on the shared file system.
    pub shared_fs: SharedFs,
    /// Traffic between daemons.
    pub overlay: Overlay,
    /// Why TCP was used in place of libfabric, if it was.
    #[serde(default)]
    pub tcp_instead: Option<String>,
    /// Hops from the root to the furthest rank.
    pub depth: u32,
    /// What the node's processes asked.
    pub clients: Clients,
    /// What the kernel asked of the mounted file system.
    #[serde(default)]
    pub mount: Mount,
    /// What was fetched before anybody asked.
    #[serde(default)]
    pub preload: Preloaded,
    /// Memory used.
    pub memory: Memory,
    /// When the first fact or byte was here, in milliseconds since the epoch.
    pub first_byte_unix_ms: Option<u64>,
    /// When the last file was complete, in milliseconds since the epoch.
    pub last_file_unix_ms: Option<u64>,
}

/// What this node was told to fetch before anybody asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preloaded {
    /// Entries of the list, or files that the program was found to need, as far as they lie in the scope.
    pub entries: u64,
    /// Files whose content came so.
    pub files: u64,
    /// Entries whose originals are not what they were; they are left to be asked for.
    pub changed: u64,
    /// Entries that could not be had, or for which there was no room.
    pub failed: u64,
    /// All that was to be fetched has been, or has failed.
    pub has_ended: bool,
}

/// What this rank sent to its peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlay {
    /// Messages, chunks included.
    pub messages: u64,
    /// Bytes, encryption and framing included.
    pub bytes: u64,
    /// Those of them that went over libfabric.
    #[serde(default)]
    pub fabric_bytes: u64,
    /// Contents that came from a peer and were not what had been read; they were fetched from others.
    #[serde(default)]
    pub mismatches: u64,
}

/// Sums of the counters of this node's processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clients {
    /// Paths looked up.
    pub lookups: u64,
    /// Look-ups that the table answered at once.
    pub answered_by_table: u64,
    /// Requests sent to the daemon.
    pub requests: u64,
    /// Paths in the scope for which the original was used though the process only read.
    pub fallbacks: u64,
    /// Processes that attached to the table.
    pub processes: u64,
}

impl Clients {
    /// The sums of these and `other`.
    pub(crate) fn plus(&self, other: &Clients) -> Clients {
        Clients {
            lookups: self.lookups + other.lookups,
            answered_by_table: self.answered_by_table + other.answered_by_table,
            requests: self.requests + other.requests,
            fallbacks: self.fallbacks + other.fallbacks,
            processes: self.processes + other.processes,
        }
    }
}

/// Memory of this node, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Allocated to the store's files at the end.
    pub store_bytes: u64,
    /// Of these, copies for further memory domains.
    #[serde(default)]
    pub replica_bytes: u64,
    /// Allocated to the shared table.
    pub table_bytes: u64,
    /// The daemon's largest resident set, the touched part of the table included.
    pub daemon_rss_max: u64,
}
