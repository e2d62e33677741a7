//! A daemon's report at its end, one line of JSON.

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
    /// Why links do without one of the named interfaces, if some do.
    #[serde(default)]
    pub interface_failure: Option<String>,
    /// Hops from the root to the furthest rank.
    pub depth: u32,
    /// Look-ups and requests of the node's processes.
    pub clients: Clients,
    /// FUSE requests to the mounted file system.
    #[serde(default)]
    pub mount: Mount,
    /// What was fetched before any request.
    #[serde(default)]
    pub preload: Preloaded,
    /// What the node's cache had.
    #[serde(default)]
    pub cached: Cached,
    /// Files that are too large to be stored.
    #[serde(default)]
    pub large: LargeFiles,
    /// Memory used.
    pub memory: Memory,
    /// Time of the first received fact or byte, in milliseconds since the epoch.
    pub first_byte_unix_ms: Option<u64>,
    /// Time of the last complete file, in milliseconds since the epoch.
    pub last_file_unix_ms: Option<u64>,
}

/// Content that came from the node's cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cached {
    /// Files, and blocks of large files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Files whose content is not stored, because they are large: processes read the source files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargeFiles {
    /// Known files of which this is so.
    pub files: u64,
    /// The largest file that is stored; zero without a limit.
    pub stored_bytes_max: u64,
    /// The measured rate of reading such files from their file system, in bytes per millisecond; zero if processes read
    /// them directly for another reason.
    #[serde(default)]
    pub direct_bytes_per_ms: u64,
    /// The rate through the trees, likewise.
    #[serde(default)]
    pub trees_bytes_per_ms: u64,
}

/// What this node fetched before any request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preloaded {
    /// Entries of the list, or files in the scope that the program needs.
    pub entries: u64,
    /// Files whose content was fetched.
    pub files: u64,
    /// Entries whose source files have changed; they are fetched when they are needed.
    pub changed: u64,
    /// Entries that could not be fetched, or for which there was no room.
    pub failed: u64,
    /// All entries have been fetched or have failed.
    pub has_ended: bool,
}

/// Traffic from this rank to its peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlay {
    /// Messages, chunks included.
    pub messages: u64,
    /// Bytes, encryption and framing included.
    pub bytes: u64,
    /// Of these, over libfabric.
    #[serde(default)]
    pub fabric_bytes: u64,
    /// Damaged contents of peers, which were fetched from others.
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
    /// Paths in the scope for which the source file was used though the process only read.
    pub fallbacks: u64,
    /// Processes that attached to the table.
    pub processes: u64,
}

impl Clients {
    /// Returns the sums of these and `other`.
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
    pub daemon_rss_bytes_max: u64,
}
