//! A daemon's statistics.

use hdrhistogram::Histogram;
use headwater_abi::Path;
use headwater_abi::wire::RELEASE;
use headwater_topology::Rank;
use serde::{Deserialize, Serialize};

use super::links;
pub use super::links::{LinkStats, PeerStats, Relation};
use super::path_text::PathText;
use crate::config::Config;
use crate::report::{Clients, Preloaded, SharedFs};
pub use crate::role::Role;

/// A node's counters since its daemon started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeStats {
    /// The session's identity.
    pub session: String,
    /// The node's name.
    #[serde(default)]
    pub name: String,
    /// What the node does in the trees.
    #[serde(default)]
    pub role: Role,
    /// The daemon's release.
    #[serde(default)]
    pub version: String,
    /// The daemon's rank.
    pub rank: u32,
    /// How many ranks there are.
    pub ranks: u32,
    /// The daemon's process.
    pub pid: u32,
    /// The generation of processes that start now.
    pub generation: u64,
    /// A generation has begun, and the kernel has not been notified of all changes.
    pub is_settling: bool,
    /// Older generations that processes still use.
    pub generations_kept: u64,
    /// Milliseconds since the daemon started.
    pub uptime_ms: u64,
    /// The mounted file system, if there is one.
    pub mount: Option<MountStats>,
    /// The directory of a site export.
    #[serde(default)]
    pub export: Option<PathText>,
    /// Links to other daemons.
    #[serde(default)]
    pub links: LinkStats,
    /// Answers by source.
    pub hits: Hits,
    /// Bytes moved.
    pub bytes: Bytes,
    /// What the node has.
    pub holds: Holds,
    /// Memory in use.
    pub memory: MemoryNow,
    /// Requests of processes under audit.
    pub clients: Clients,
    /// What was fetched before any request.
    #[serde(default)]
    pub preload: Preloaded,
    /// Work on the shared file system.
    pub shared_fs: SharedFs,
    /// Why TCP is used in place of libfabric, if it is.
    #[serde(default)]
    pub tcp_instead: Option<String>,
    /// Why links do without one of the named interfaces, if some do.
    #[serde(default)]
    pub interface_failure: Option<String>,
    /// Damaged contents of peers, which were fetched from others.
    #[serde(default)]
    pub mismatches: u64,
    /// Source files that changed during the session and are used in place of copies.
    pub changed: Changed,
    /// Requests to this daemon by operation, without those that never occurred.
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
    /// Writing goes to the source files.
    pub is_writable: bool,
}

/// Answers by source, without those from the kernel's own caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hits {
    /// FUSE requests to the mounted file system.
    pub upcalls: u64,
    /// Look-ups and FUSE requests that the node's table and store answered at once.
    pub table: u64,
    /// Facts and files that came from the parent daemon.
    pub parent: u64,
    /// Facts and files that this daemon read from the shared file system.
    pub reader: u64,
    /// Look-ups and FUSE requests for which the source file was used.
    pub original: u64,
}

/// Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes {
    /// Content in the store.
    pub store: u64,
    /// The present limit of the store, which is lower than configured while memory or the store's file system is short.
    pub store_max: u64,
    /// The configured limit of the store.
    pub store_max_configured: u64,
    /// Sent to other daemons.
    pub sent: u64,
    /// Of these, over libfabric.
    #[serde(default)]
    pub sent_by_fabric: u64,
    /// Received from other daemons.
    pub received: u64,
    /// Content read from the shared file system.
    pub shared_fs: u64,
}

/// What the node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holds {
    /// Files with content in the store.
    pub files: u64,
    /// Known paths.
    pub entries: u64,
    /// Evicted files.
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

/// Source files that have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// How often a change was noticed.
    pub count: u64,
    /// The latest of them.
    pub paths: Vec<PathText>,
}

/// One operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationStats {
    /// Its name: `request` for requests of processes under audit, otherwise a FUSE operation.
    pub name: String,
    /// Answers in all.
    pub count: u64,
    /// Answers from the table and the store at once.
    pub from_table: u64,
    /// Answers after the node had fetched something.
    pub asked: u64,
    /// Answers from the source file.
    pub from_original: u64,
    /// Answers with an error number; an absent name that the kernel caches is none.
    pub errors: u64,
    /// Bytes of content in the answers.
    pub bytes: u64,
    /// Time until the answer.
    pub latency: Latency,
}

/// Percentiles in nanoseconds; zero without answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// The median.
    pub p50_ns: u64,
    /// The 90th percentile.
    pub p90_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// The sum of all.
    #[serde(default)]
    pub sum_ns: u64,
    /// How many took at most each of [`LATENCY_BOUNDS_NS`], and more than the one before.
    #[serde(default)]
    pub counts: [u64; LATENCY_BOUNDS_NS.len()],
}

/// Bounds by which answers are counted, in nanoseconds: from 1 µs to 10 s.
pub const LATENCY_BOUNDS_NS: [u64; 8] =
    [1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000];

/// Changed source files that are shown by path.
const CHANGED_SHOWN_MAX: usize = 16;

impl NodeStats {
    /// Returns what does not change while a daemon runs.
    pub(crate) fn of(config: &Config) -> NodeStats {
        let mount = config.mount.as_ref().map(|mount| MountStats {
            mount_point: PathText::from(&*mount.mount_point),
            root: PathText::Text(mount.root.clone()),
            opening: format!("{:?}", mount.opening).to_lowercase(),
            is_writable: mount.is_writable,
        });
        let own_name = links::names(config).name(Rank(config.rank));
        let host_name = || rustix::system::uname().nodename().to_string_lossy().into_owned();
        NodeStats {
            session: config.session.into(),
            name: own_name.unwrap_or_else(host_name),
            role: Role::of(&config.forest(), Rank(config.rank)),
            version: RELEASE.into(),
            export: export(config),
            rank: config.rank,
            ranks: config.ranks,
            pid: std::process::id(),
            mount,
            ..NodeStats::default()
        }
    }
}

/// Returns the directory of a site export.
fn export(config: &Config) -> Option<PathText> {
    let (_, directory) = config.scope.iter().find(|(is_included, _)| *is_included && config.is_site_export)?;
    Some(PathText::Text(directory.clone()))
}

impl Changed {
    /// Counts a change.
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
        let mut latency = Latency {
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            max_ns: histogram.max(),
            ..Latency::default()
        };
        for recorded in histogram.iter_recorded() {
            let (ns, count) = (recorded.value_iterated_to(), recorded.count_since_last_iteration());
            latency.sum_ns = latency.sum_ns.saturating_add(ns.saturating_mul(count));
            if let Some(bound) = LATENCY_BOUNDS_NS.iter().position(|&bound| ns <= bound) {
                latency.counts[bound] += count;
            }
        }
        latency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_by_their_bounds() {
        let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 2).unwrap();
        assert_eq!(Latency::from(&histogram), Latency::default());
        for ns in [500, 2_000_000, 3_000_000, 20_000_000_000] {
            histogram.record(ns).unwrap();
        }
        let latency = Latency::from(&histogram);
        assert_eq!(latency.counts, [1, 0, 0, 0, 2, 0, 0, 0], "the last took longer than any bound");
        assert!((20_000_000_000..20_500_000_000).contains(&latency.sum_ns), "{latency:?}");
    }
}
