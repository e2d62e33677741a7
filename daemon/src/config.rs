//! A daemon's configuration, one line of JSON on standard input.

use std::net::SocketAddr;
use std::path::PathBuf;

use headwater_abi::table::Geometry;
use headwater_abi::{Path, client};
use headwater_mount::MountConfig;
use headwater_overlay::{Fabric, LinkProtection, Rails, SessionId, SessionKey};
use headwater_proto::{COMPARING_NODES_MAX, Kinds, Limits, Policy, Rank, Stored};
use headwater_store::layout::{DiskRoots, NodeDir};
use headwater_topology::{Branching, Forest, Shape, TREES_MAX};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::preload::plan::Preload;

/// A node's rank, its session and its limits.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Config {
    /// This daemon's rank.
    pub rank: u32,
    /// How many ranks there are.
    pub ranks: u32,
    /// The number of server ranks, which come first: they run no program and read for all others. Without servers, the
    /// shape determines the readers.
    #[serde(default)]
    pub servers: u32,
    /// The overlay's trees.
    pub shape: Shape,
    /// The push policy: which nodes receive content that one node has requested.
    pub policy: Policy,
    /// The session's identity, the same on all nodes.
    pub session: SessionId,
    /// The key that every peer must know.
    pub key: SessionKey,
    /// Where each rank listens, in the order of ranks.
    pub peers: Vec<SocketAddr>,
    /// The same as host and port, resolved at each dial; `peers` is then empty.
    #[serde(default)]
    pub names: Vec<String>,
    /// Each rank's name, as a hostlist; empty if the names are not known.
    #[serde(default)]
    pub node_names: String,
    /// A site export: servers alone read, and serve only what all users may read. The other ranks have no source files.
    #[serde(default, rename = "is_standing")]
    pub is_site_export: bool,
    /// The inherited descriptor of this rank's listening TCP socket.
    pub listener_fd: i32,
    /// The node's directory; the daemon removes it when it ends.
    pub node_dir: PathBuf,
    /// The file whose shared lock shows that the session is in use.
    pub session_lock: PathBuf,
    /// Bytes of content that the store may hold.
    pub store_bytes_max: u64,
    /// A RAM disk for content; without it, content lies in the node's directory.
    #[serde(default)]
    pub disk: Option<Disk>,
    /// Included (`true`) and excluded directories; the longest match decides.
    pub scope: Vec<(bool, String)>,
    /// Files of the shared file system, by canonical path, that inherited descriptors have open; the reader does not
    /// open them again.
    #[serde(default)]
    pub opened: Vec<(String, i32)>,
    /// Sizes of the shared table; the default has room for 131,072 paths.
    #[serde(default)]
    pub table: Option<Geometry>,
    /// The mounted file system to serve, if any.
    #[serde(default)]
    pub mount: Option<MountConfig>,
    /// Continue from a predecessor's state in the node's directory.
    #[serde(default)]
    pub recover: bool,
    /// An inherited pipe that closes when the session's owner ends; while it is open, the end of standard input does
    /// not end the daemon.
    #[serde(default)]
    pub lifeline_fd: Option<i32>,
    /// Larger files travel in blocks, as they are read.
    #[serde(default = "whole_file_bytes_max_default")]
    pub whole_file_bytes_max: u64,
    /// Processes read larger files from the shared file system themselves; by default there is no limit, but see
    /// [`Config::stored_file_bytes_max`].
    #[serde(default)]
    pub stored_file_bytes_max: Option<u64>,
    /// Kinds of files of which content is stored; the same on all nodes.
    #[serde(default)]
    pub serve: Kinds,
    /// Programs that audited processes start in other processes are audited, too.
    #[serde(default = "follows_fork_default")]
    pub follows_fork: bool,
    /// A cache of the node that outlives the session.
    #[serde(default)]
    pub cache: Option<CacheOptions>,
    /// What is fetched before any request; the same on all nodes.
    #[serde(default)]
    pub preload: Option<Preload>,
    /// At its end, the daemon writes here what processes used, as lines of a closure in the order in which it became
    /// known.
    #[serde(default)]
    pub record_to: Option<PathBuf>,
    /// At its end, the daemon writes here what it did about each path and link: a
    /// [`NodePart`](headwater_report::job::NodePart) as JSON. Without it, nothing of that is recorded.
    #[serde(default)]
    pub report_to: Option<PathBuf>,
    /// Make copies of libraries for each memory domain in this directory: `/sys/devices/system/node`.
    #[serde(default)]
    pub numa_replicas: Option<PathBuf>,
    /// Only of files whose paths match one of these patterns, if there are any; `*` stands for any bytes.
    #[serde(default)]
    pub numa_replicas_for: Vec<String>,
    /// Links use libfabric if both ends have it.
    #[serde(default)]
    pub fabric: Option<Fabric>,
    /// How links are protected, the same on all nodes.
    #[serde(default)]
    pub link_protection: LinkProtection,
    /// Links use these interfaces; the same on all nodes or on none.
    #[serde(default)]
    pub rails: Option<Rails>,
}

/// Where content is kept for later sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheOptions {
    /// A directory on the node; the user's cache is below it.
    pub directory: PathBuf,
    /// The most that it holds; by default, a quarter of what is free.
    pub bytes_max: Option<u64>,
}

/// A RAM disk that is mounted nowhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// The inherited descriptor of its root directory.
    pub fd: i32,
    /// The root's path for the node's processes, if they can reach it.
    pub shown_at: Option<PathBuf>,
}

/// Paths that a node with a mounted file system may know before it forgets unused ones: about 30 MB.
const FACTS_MAX: usize = 32_000;
/// Bytes of listings that it may know.
const LISTING_BYTES_MAX: u64 = 8 << 20;

fn follows_fork_default() -> bool {
    true
}

fn whole_file_bytes_max_default() -> u64 {
    16 << 20
}

/// Why a configuration can't be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// A number is out of bounds.
    #[error("the daemon's configuration is unusable: {0}")]
    Number(&'static str),
    /// A scope entry is no absolute path.
    #[error("the scope holds \"{0}\", which is not an absolute path")]
    Scope(String),
    /// The socket's path is too long for the kernel.
    #[error("the socket's path {0} is longer than {SOCKET_PATH_BYTES_MAX} bytes: use a shorter --store directory")]
    SocketPath(String),
}

/// How long a parent may be down before its successor takes over, in milliseconds.
const PARENT_ABSENCE_MS_MAX: u64 = 1000;
/// The part of the store that is reserved for evicted content.
const EVICTED_SHARE: u64 = 4;
/// The longest path of a Unix socket, in bytes.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

impl Config {
    /// Checks all numbers and paths.
    pub fn check(&self) -> Result<(), ConfigError> {
        let geometry = self.geometry();
        let broken = [
            (self.ranks == 0 || self.rank >= self.ranks, "the rank is not among the ranks"),
            (self.ranks <= self.servers, "no rank is left that runs programs: name fewer servers"),
            (
                matches!(
                    self.shape,
                    Shape::Single(Branching::KAry(0)) | Shape::Partitioned { branching: Branching::KAry(0), .. }
                ),
                "the fan-out is zero",
            ),
            (matches!(self.shape, Shape::Partitioned { groups: 0, .. }), "there are no groups"),
            (
                matches!(self.shape, Shape::Striped { trees, .. } if trees == 0 || trees > TREES_MAX),
                "there are no trees, or more than 64",
            ),
            (matches!(self.shape, Shape::Striped { readers: 0, .. }), "there is no reader: name at least one"),
            (
                self.peers.len().max(self.names.len()) != self.ranks as usize
                    || !(self.peers.is_empty() || self.names.is_empty()),
                "there is not one address for each rank",
            ),
            (
                self.rails.as_ref().is_some_and(|rails| rails.peers.len() != self.ranks as usize),
                "there are not the interfaces of each rank",
            ),
            (self.is_site_export && self.servers == 0, "there is no server: name at least one"),
            (!self.node_dir.is_absolute(), "the node's directory is not an absolute path"),
            (
                !geometry.slot_count.is_power_of_two()
                    || !geometry.ino_slot_count.is_power_of_two()
                    || geometry.slot_count.max(geometry.ino_slot_count) > 1 << 28
                    || !(64 << 10..=16 << 30).contains(&geometry.heap_bytes)
                    || !geometry.heap_bytes.is_multiple_of(8),
                "the table's sizes are out of bounds",
            ),
        ];
        if let Some((_, why)) = broken.into_iter().find(|(broken, _)| *broken) {
            return Err(ConfigError::Number(why));
        }
        let socket = self.dir().supervisor();
        if socket.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
            return Err(ConfigError::SocketPath(socket.display().to_string()));
        }
        self.scope_paths().map(drop)
    }

    /// Returns the inherited descriptors of all listening sockets.
    pub fn listener_fds(&self) -> impl Iterator<Item = i32> + '_ {
        let more = self.rails.iter().flat_map(|rails| rails.listener_fds.iter().copied());
        std::iter::once(self.listener_fd).chain(more)
    }

    /// Returns the node's directory, with its newest generation.
    pub fn dir(&self) -> NodeDir {
        let dir = NodeDir::new(&self.node_dir).newest();
        let Some(disk) = &self.disk else { return dir };
        let own = PathBuf::from(format!("/proc/self/fd/{}", disk.fd));
        let shown = disk.shown_at.clone().unwrap_or_else(|| own.clone());
        dir.on_disk(DiskRoots { own, shown })
    }

    /// Returns the overlay's trees over all ranks. The configuration must have been checked.
    pub fn forest(&self) -> Forest {
        let forest = Forest::new(self.ranks, self.servers, self.shape);
        if self.is_site_export { forest.read_by_servers_alone() } else { forest }
    }

    /// Returns how long a parent that was not seen yet may take to start, in milliseconds. Beside a predecessor it was
    /// running.
    pub(crate) fn parent_wait_ms_max(&self) -> u64 {
        if self.recover { PARENT_ABSENCE_MS_MAX } else { Limits::default().starting_ms_max }
    }

    /// Returns the largest file of which content is stored, if there is a limit. A node that is alone shares with
    /// no other, and a copy of a large file would cost it more than the file.
    pub fn stored_file_bytes_max(&self) -> Option<u64> {
        if self.watches_requests() {
            return None;
        }
        let is_alone = self.ranks == 1 && !self.is_site_export && self.numa_replicas.is_none() && self.cache.is_none();
        self.stored_file_bytes_max.or_else(|| is_alone.then_some(self.whole_file_bytes_max))
    }

    /// Returns the content that is stored. Where a list has all that processes should use, it is all.
    pub(crate) fn stored(&self) -> Stored {
        let kinds = if self.watches_requests() { Kinds::all() } else { self.serve };
        Stored { kinds, file_bytes_max: self.stored_file_bytes_max().unwrap_or(u64::MAX) }
    }

    /// Returns whether processes under audit read the store's copies.
    pub(crate) fn serves_audit(&self) -> bool {
        self.mount.as_ref().is_none_or(|mount| mount.is_beside_audit)
    }

    /// Returns the size above which processes under audit read files in the mount.
    fn mounted_file_bytes_min(&self) -> Option<u64> {
        self.mount.as_ref().filter(|mount| mount.is_beside_audit).map(|_| self.whole_file_bytes_max)
    }

    /// Returns the size above which files are compared: read through the trees, or faster from their file system. There
    /// is none where all content has to be stored, and where it is decided already. Few nodes compare, so that many
    /// don't load a slow file system.
    fn compared_file_bytes_min(&self) -> Option<u64> {
        let is_stored = self.watches_requests()
            || self.is_site_export
            || self.numa_replicas.is_some()
            || self.cache.is_some()
            || self.stored_file_bytes_max().is_some();
        (!is_stored && self.rank < COMPARING_NODES_MAX).then_some(self.whole_file_bytes_max)
    }

    /// Returns whether each request of a process must be seen, because a list has all that processes should use.
    fn watches_requests(&self) -> bool {
        matches!(&self.preload, Some(Preload::List(list)) if list.is_complete)
    }

    /// Returns the scope as cleaned paths.
    pub fn scope_paths(&self) -> Result<Vec<(bool, Path)>, ConfigError> {
        let clean = |(included, directory): &(bool, String)| {
            let path = Path::new(directory.as_bytes()).ok_or_else(|| ConfigError::Scope(directory.clone()))?;
            Ok((*included, path))
        };
        self.scope.iter().map(clean).collect()
    }

    /// Returns the table's sizes.
    pub fn geometry(&self) -> Geometry {
        self.table.unwrap_or_default()
    }

    /// Returns the node's configuration. This configuration must have been checked.
    pub(crate) fn node(&self, scope: Vec<(bool, Path)>) -> headwater_proto::Config {
        // Programs may search a mounted file system from end to end without reading content. Under audit, files are
        // loaded, and their neighbours are not needed.
        let limits = if !self.serves_audit() || self.is_site_export {
            Limits {
                facts_max: FACTS_MAX,
                listing_bytes_max: LISTING_BYTES_MAX,
                details_names_max: FACTS_MAX / 2,
                ..Limits::default()
            }
        } else {
            Limits { details_names_max: 0, ahead_files_max: 0, ..Limits::default() }
        };
        // What was read ahead would be used without a request.
        let limits = match self.watches_requests() {
            true => Limits { ahead_files_max: 0, blocks_ahead_max: 0, ..limits },
            false => limits,
        };
        // Mounts and site exports have supervisors, which restart daemons.
        let parent_absence_ms_max = if self.mount.is_some() || self.is_site_export { PARENT_ABSENCE_MS_MAX } else { 0 };
        headwater_proto::Config {
            rank: Rank(self.rank),
            forest: self.forest(),
            session: self.session.0,
            policy: self.policy,
            limits: Limits {
                store_bytes_max: content_bytes_max(self.serves_audit(), self.store_bytes_max),
                has_cache: self.cache.is_some(),
                stored: self.stored(),
                compared_file_bytes_min: self.compared_file_bytes_min().unwrap_or(u64::MAX),
                mounted_file_bytes_min: self.mounted_file_bytes_min().unwrap_or(u64::MAX),
                parent_absence_ms_max,
                starting_ms_max: self.parent_wait_ms_max(),
                ..limits
            },
            scope,
        }
    }
}

/// Returns how much of a store of this size published content may use. Evicted content stays for some seconds, unless
/// only a mounted file system reads the store.
pub(crate) fn content_bytes_max(serves_audit: bool, store_bytes_max: u64) -> u64 {
    store_bytes_max - if serves_audit { store_bytes_max / EVICTED_SHARE } else { 0 }
}

const _: () = assert!(client::PENDING_INTERVAL_MS < client::SILENCE_MS_MAX);

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn config() -> Config {
        Config {
            rank: 1,
            ranks: 2,
            servers: 0,
            shape: Shape::Striped { trees: 8, readers: 2 },
            policy: Policy::Adaptive,
            session: SessionId(0xabc << 100),
            key: SessionKey([7; 32]),
            peers: vec!["127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap()],
            names: Vec::new(),
            node_names: String::new(),
            is_site_export: false,
            listener_fd: 3,
            node_dir: "/dev/shm/headwater-0/s/n1".into(),
            session_lock: "/dev/shm/headwater-0/s/lock".into(),
            store_bytes_max: 1 << 30,
            disk: None,
            scope: vec![(true, "/lustre/sw".into()), (false, "/lustre/sw/home".into())],
            opened: Vec::new(),
            table: None,
            mount: None,
            recover: false,
            lifeline_fd: None,
            whole_file_bytes_max: 16 << 20,
            stored_file_bytes_max: None,
            serve: Kinds::all(),
            follows_fork: true,
            cache: None,
            preload: None,
            record_to: None,
            report_to: None,
            numa_replicas: None,
            numa_replicas_for: Vec::new(),
            fabric: None,
            link_protection: LinkProtection::Encrypt,
            rails: None,
        }
    }

    #[test]
    fn json_round_trips() {
        let line = serde_json::to_string(&config()).unwrap();
        assert!(line.contains(r#""policy":"adaptive""#) && !line.contains('\n'), "{line}");
        assert!(line.contains(r#""servers":0,"shape":{"striped":{"trees":8,"readers":2}}"#), "{line}");
        let read: Config = serde_json::from_str(&line).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), line);
        assert_eq!((read.session, read.key.clone()), (config().session, config().key));
        assert!(!format!("{read:?}").contains("0707"), "the key is never shown");
    }

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        assert_eq!(config().check(), Ok(()));
        let check = |change: fn(&mut Config)| {
            let mut config = config();
            change(&mut config);
            config.check().unwrap_err()
        };
        assert!(matches!(check(|c| c.rank = 2), ConfigError::Number(_)));
        let k_ary = Branching::KAry;
        let shapes = [
            Shape::Single(k_ary(0)),
            Shape::Partitioned { groups: 0, branching: k_ary(2) },
            Shape::Partitioned { groups: 2, branching: k_ary(0) },
            Shape::Striped { trees: 0, readers: 1 },
            Shape::Striped { trees: TREES_MAX + 1, readers: 1 },
            Shape::Striped { trees: 2, readers: 0 },
        ];
        for shape in shapes {
            let broken = Config { shape, ..config() };
            assert!(matches!(broken.check(), Err(ConfigError::Number(_))), "{shape:?}");
        }
        assert!(matches!(check(|c| c.servers = 2), ConfigError::Number(_)));
        assert!(matches!(check(|c| c.peers.truncate(1)), ConfigError::Number(_)));
        assert!(matches!(check(|c| c.scope.push((true, "sw".into()))), ConfigError::Scope(_)));
        assert!(matches!(check(|c| c.node_dir = format!("/{}", "x".repeat(110)).into()), ConfigError::SocketPath(_)));
        let odd = Geometry { slot_count: 3, ino_slot_count: 4, heap_bytes: 1 << 20 };
        let mut table = config();
        table.table = Some(odd);
        assert!(table.check().is_err());
    }

    #[test]
    fn what_only_a_list_may_have_is_not_brought_by_others() {
        let limits = |is_complete| {
            let list = crate::preload::plan::PreloadList { is_complete, ..Default::default() };
            let config = Config { ranks: 1, preload: Some(Preload::List(list)), serve: Kinds::DATA, ..config() };
            let limits = config.node(Vec::new()).limits;
            (limits.blocks_ahead_max > 0, limits.stored)
        };
        let stored = Stored { kinds: Kinds::DATA, file_bytes_max: 16 << 20 };
        assert_eq!((limits(false), limits(true)), ((true, stored), (false, Stored::ALL)));
    }

    #[test]
    fn the_forest_is_what_was_asked_for() {
        let check = |ranks, servers, shape, trees, roots: &[u32]| {
            let forest = Config { ranks, servers, shape, ..config() }.forest();
            let found: Vec<u32> = forest.tree_ids().map(|tree| forest.root(tree).0).collect();
            assert_eq!((forest.trees(), &found[..]), (trees, roots), "{shape:?}");
        };
        let single = Shape::Single(Branching::Binomial);
        check(9, 0, single, 1, &[0]);
        check(9, 0, Shape::Striped { trees: 3, readers: 2 }, 3, &[0, 1, 0]);
        check(9, 3, Shape::Striped { trees: 2, readers: 1 }, 3, &[0, 1, 2]);
        check(9, 0, Shape::Partitioned { groups: 3, branching: Branching::KAry(2) }, 3, &[0, 3, 6]);
    }
}
