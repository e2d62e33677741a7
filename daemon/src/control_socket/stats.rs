//! What a daemon did so far, in numbers.

use hdrhistogram::Histogram;
use headwater_abi::Path;
use serde::{Deserialize, Serialize};

use super::path_text::PathText;
use crate::report::{Clients, Preloaded, SharedFs};

/// A node's counters since its daemon started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeStats {
    /// The session's identity.
    pub session: String,
    /// The daemon's rank.
    pub rank: u32,
    /// How many ranks there are.
    pub ranks: u32,
    /// The daemon's process.
    pub pid: u32,
    /// The generation that processes which start now get.
    pub generation: u64,
    /// A generation has begun, and the kernel has yet to hear of some of its changes.
    pub is_settling: bool,
    /// Older generations that processes still use.
    pub generations_kept: u64,
    /// Milliseconds since the daemon started.
    pub uptime_ms: u64,
    /// The mounted file system, if there is one.
    pub mount: Option<MountStats>,
    /// Who answered.
    pub hits: Hits,
    /// Bytes moved.
    pub bytes: Bytes,
    /// What the node holds.
    pub holds: Holds,
    /// Memory in use.
    pub memory: MemoryNow,
    /// What processes of the audit library asked.
    pub clients: Clients,
    /// What was fetched before anybody asked.
    #[serde(default)]
    pub preload: Preloaded,
    /// Work on the shared file system.
    pub shared_fs: SharedFs,
    /// Why TCP is used in place of libfabric, if it is.
    #[serde(default)]
    pub tcp_instead: Option<String>,
    /// Originals that were found changed during the session, and are used in place of copies.
    pub changed: Changed,
    /// What was asked of this daemon, by operation; those that never happened are left out.
    pub operations: Vec<OperationStats>,
}

/// A mounted file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountStats {
    /// Where it is mounted.
    pub mount_point: PathText,
    /// The directory that it shows.
    pub root: PathText,
    /// How files are opened: none, cached or passthrough.
    pub opening: String,
    /// Writing goes to the originals.
    pub is_writable: bool,
}

/// Answers, by who gave them. What the kernel answers from its own caches is seen by nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hits {
    /// Requests of the kernel about the mounted file system.
    pub upcalls: u64,
    /// Look-ups and upcalls that the node's table and store answered at once.
    pub table: u64,
    /// Facts and files that came from the parent daemon.
    pub parent: u64,
    /// Facts and files that this daemon read from the shared file system.
    pub reader: u64,
    /// Look-ups and upcalls for which the original was used.
    pub original: u64,
}

/// Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes {
    /// Content in the store.
    pub store: u64,
    /// The most that the store holds now: less than was configured while memory or the store's file
    /// system is short.
    pub store_max: u64,
    /// The most that it holds otherwise.
    pub store_max_configured: u64,
    /// Sent to other daemons.
    pub sent: u64,
    /// Those of them that went over libfabric.
    #[serde(default)]
    pub sent_by_fabric: u64,
    /// Received from other daemons.
    pub received: u64,
    /// Content read from the shared file system.
    pub shared_fs: u64,
}

/// What the node holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holds {
    /// Files with content in the store.
    pub files: u64,
    /// Paths of which something is known.
    pub entries: u64,
    /// Files that gave way to others.
    pub evictions: u64,
}

/// Memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryNow {
    /// The daemon's resident set, the touched part of the table included.
    pub daemon_rss: u64,
    /// The shared table.
    pub table: u64,
    /// The store's files.
    pub store: u64,
}

/// Originals that have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// How many times one was found.
    pub count: u64,
    /// The last of them.
    pub paths: Vec<PathText>,
}

/// One operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationStats {
    /// Its name: `request` for what processes of the audit library ask, otherwise what the kernel asks
    /// about the mounted file system.
    pub name: String,
    /// How often it was answered.
    pub count: u64,
    /// Of these, from the table and the store at once.
    pub from_table: u64,
    /// Once the node had fetched something.
    pub asked: u64,
    /// By the original.
    pub from_original: u64,
    /// With an error number; an absent name that the kernel remembers is none.
    pub errors: u64,
    /// Bytes of content in the answers.
    pub bytes: u64,
    /// How long the answers took.
    pub latency: Latency,
}

/// Percentiles, in nanoseconds; zero if nothing was answered yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// Half took at most this.
    pub p50_ns: u64,
    /// Nine of ten.
    pub p90_ns: u64,
    /// 99 of a hundred.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Changed originals that are shown by their paths.
const CHANGED_SHOWN_MAX: usize = 16;

impl Changed {
    /// One more.
    pub(crate) fn note(&mut self, path: &Path) {
        self.count += 1;
        if self.paths.len() == CHANGED_SHOWN_MAX {
            self.paths.remove(0);
        }
        self.paths.push(path.as_bytes().into());
    }
}

impl From<&Histogram<u64>> for Latency {
    fn from(histogram: &Histogram<u64>) -> Latency {
        if histogram.is_empty() {
            return Latency::default();
        }
        let at = |quantile| histogram.value_at_quantile(quantile);
        Latency { p50_ns: at(0.5), p90_ns: at(0.9), p99_ns: at(0.99), max_ns: histogram.max() }
    }
}
