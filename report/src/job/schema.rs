//! The report's schema. All times are microseconds; moments count from the beginning of `headwater run`, by the clock of
//! the machine on which it runs.

use serde::{Deserialize, Serialize};

use super::part::{Cause, EventKind, Kind, SharedReads, Snapshot, Source, Traffic, Waits};

/// The value of [`JobReport::format`].
pub const FORMAT: &str = "headwater-job-report";
/// The schema's version. A reader of one version reads all reports with it; new fields don't change it.
pub const VERSION: u32 = 1;

/// What a job's start did, over all nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobReport {
    /// Always [`FORMAT`].
    pub format: String,
    /// The schema's version.
    pub version: u32,
    /// The run.
    pub run: Run,
    /// Nodes whose records are in this report, by rank.
    pub nodes: Vec<NodeReport>,
    /// Ranks whose records are missing, because their daemons ended without them.
    pub missing_ranks: Vec<u32>,
    /// Work on the shared file system, by all nodes.
    pub shared_fs: SharedReads,
    /// Where processes waited, summed over all their requests on all nodes.
    pub legs: Legs,
    /// Links between nodes.
    pub links: Vec<LinkReport>,
    /// Paths, in the order in which they were first fetched or requested.
    pub paths: Vec<PathReport>,
    /// Paths for which a node had no room.
    pub paths_left_out: u64,
    /// What single nodes did about the paths for which processes waited longest, as far as there is room.
    pub cells: Vec<Cell>,
    /// Cells for which there was no room.
    pub cells_left_out: u64,
    /// What went wrong, or was given up, in the order of time.
    pub events: Vec<Event>,
    /// Events for which there was no room.
    pub events_left_out: u64,
}

/// The run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Headwater's release.
    pub release: String,
    /// The command, as text.
    pub command: Vec<String>,
    /// How the files reached the program: the mechanism's name.
    pub via: String,
    /// When the run began, in milliseconds since the epoch.
    pub began_unix_ms: u64,
    /// When every daemon was ready.
    pub daemons_ready_us: Option<u64>,
    /// When the last process had ended.
    pub program_exit_us: Option<u64>,
    /// The program's exit status.
    pub exit_status: u8,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeReport {
    /// Its rank.
    pub rank: u32,
    /// Its name.
    pub name: String,
    /// When its daemon started.
    pub started_us: i64,
    /// By how much moments of this node may be wrong; `None` if that is not known.
    pub clock_error_us: Option<u64>,
    /// A daemon of this node died; its records are missing.
    pub is_successor: bool,
    /// Work on the shared file system.
    pub shared_fs: SharedReads,
    /// Requests of its processes.
    pub processes: Waits,
    /// Where these waited.
    pub legs: Legs,
    /// Its state at intervals. Moments count from its daemon's start.
    pub snapshots: Vec<Snapshot>,
}

/// Where processes waited: process ← node ← parents ← shared file system. The parts add up to `wait_us`, but for
/// rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Legs {
    /// From requests to answers.
    pub wait_us: u64,
    /// In the node's own daemon, while it fetched nothing of the path.
    pub node_us: u64,
    /// On links: between a request's departure from a child and the answer's arrival, without the parent's part. Where a
    /// daemon waits for a processor before it reads a message, that is part of it.
    pub links_us: u64,
    /// In daemons of parents, while they fetched nothing of the path.
    pub parents_us: u64,
    /// In a node's cache.
    pub cache_us: u64,
    /// In the shared file system.
    pub shared_fs_us: u64,
    /// Behind parents whose records are missing.
    pub unknown_us: u64,
}

/// A link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkReport {
    /// The rank that answers.
    pub parent: u32,
    /// The rank that requests.
    pub child: u32,
    /// Requests.
    pub requests: u64,
    /// To the parent.
    pub up: Traffic,
    /// To the child.
    pub down: Traffic,
    /// From a request's departure to the answer's arrival, summed.
    pub wait_us: u64,
    /// Of this: at the parent.
    pub parent_us: u64,
    /// Of the parent's part: while it read the shared file system.
    pub shared_fs_us: u64,
}

/// The first and the last of some moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The first.
    pub first_us: i64,
    /// The last.
    pub last_us: i64,
}

/// On how many nodes something came from where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeTimes {
    /// Nodes that know the path.
    pub known: u32,
    /// Nodes whose processes requested it.
    pub requested: u32,
    /// Nodes that got it from the shared file system.
    pub shared_fs: u32,
    /// Nodes that got it from their cache.
    pub cache: u32,
    /// Nodes that got it from a parent.
    pub parent: u32,
    /// Of all: nodes that got it without a request.
    pub pushed: u32,
    /// Of all: nodes that preloaded it.
    pub preloaded: u32,
    /// Nodes whose store has content of it at the end.
    pub stored: u32,
}

/// A path, over all nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathReport {
    /// The path. What is not UTF-8 stands as `\xHH`, control characters stand as `\u{H}`.
    pub path: String,
    /// What it is.
    pub kind: Kind,
    /// Numbers of nodes.
    pub nodes: NodeTimes,
    /// When processes first requested it: on the first node and on the last one.
    pub asked: Option<Span>,
    /// When nodes first requested it from a parent, or began to read it.
    pub fetched: Option<Span>,
    /// When the last part of it was there.
    pub arrived: Option<Span>,
    /// Requests of processes.
    pub requests: u64,
    /// Of these, requests for names that the directory does not have.
    pub absent: u64,
    /// From requests of processes to their answers, summed.
    pub wait_us: u64,
    /// The longest wait of a process.
    pub wait_us_max: u64,
    /// The rank of its node.
    pub wait_rank: Option<u32>,
    /// Requests of children.
    pub child_requests: u64,
    /// Reads of the shared file system.
    pub reads: u64,
    /// The time of these reads, summed.
    pub read_us: u64,
    /// Bytes of content that nodes got from the shared file system.
    pub shared_fs_bytes: u64,
    /// Bytes of content that nodes got from caches.
    pub cache_bytes: u64,
    /// Bytes of content that nodes got from parents.
    pub parent_bytes: u64,
    /// Bytes in the stores of all nodes at the end.
    pub stored_bytes: u64,
}

/// What one node did about one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The path's index in [`JobReport::paths`].
    pub path: u32,
    /// The node's rank.
    pub rank: u32,
    /// Where it came from.
    pub source: Source,
    /// The parent's rank, if it came from one.
    pub parent: Option<u32>,
    /// Why.
    pub cause: Cause,
    /// When a process first requested it.
    pub asked_us: Option<i64>,
    /// When the node began to fetch it.
    pub fetched_us: Option<i64>,
    /// When the last part of it was there.
    pub arrived_us: Option<i64>,
    /// How long processes waited, summed.
    pub wait_us: u64,
    /// The longest wait of a process.
    pub wait_us_max: u64,
}

/// Something that went wrong, or was given up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub at_us: i64,
    /// On which rank.
    pub rank: u32,
    /// What.
    pub kind: EventKind,
    /// The path, if it is about one.
    pub path: Option<String>,
    /// The other node's rank, if it is about one.
    pub peer: Option<u32>,
}

impl Legs {
    /// Adds the times of `other`.
    pub fn add(&mut self, other: &Legs) {
        self.wait_us += other.wait_us;
        self.node_us += other.node_us;
        self.links_us += other.links_us;
        self.parents_us += other.parents_us;
        self.cache_us += other.cache_us;
        self.shared_fs_us += other.shared_fs_us;
        self.unknown_us += other.unknown_us;
    }
}
