//! What one node's daemon records. Times are microseconds since the daemon started, at least one; zero: never.

use serde::{Deserialize, Serialize};

/// The most bytes of a part as JSON: less than a line between nodes may have.
pub const PART_BYTES_MAX: usize = 7 << 20;

/// A node's records.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodePart {
    /// The node's rank.
    pub rank: u32,
    /// Its name.
    pub name: String,
    /// When its daemon started, by the node's monotonic clock, in microseconds.
    pub started_us: u64,
    /// A daemon of this node died, and this one records since its own start.
    pub is_successor: bool,
    /// Work on the shared file system.
    pub shared_fs: SharedReads,
    /// Requests of the node's processes.
    pub processes: Waits,
    /// Paths, in the order in which they became known.
    pub paths: Vec<PathRow>,
    /// Names of paths by their hash: of those that no parent sent.
    pub names: Vec<(u64, String)>,
    /// Paths for which there was no room.
    pub paths_left_out: u64,
    /// Links to other nodes.
    pub links: Vec<LinkPart>,
    /// What went wrong, or was given up.
    pub events: Vec<EventPart>,
    /// Events for which there was no room.
    pub events_left_out: u64,
    /// The node's state at intervals.
    pub snapshots: Vec<Snapshot>,
}

/// Work on the shared file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedReads {
    /// Files opened.
    pub files: u64,
    /// Directories listed.
    pub directories: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Operations.
    pub operations: u64,
}

/// Requests that waited at a node, and where their answers came from, in microseconds. Sums over all requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// Requests that were answered.
    pub requests: u64,
    /// Of these, those that were answered with the source file.
    pub fallbacks: u64,
    /// From request to answer.
    pub wait_us: u64,
    /// Of this: while the node itself fetched nothing of the path.
    pub node_us: u64,
    /// Of this: while the node read the shared file system.
    pub shared_fs_us: u64,
    /// Of this: while the node read its cache.
    pub cache_us: u64,
    /// Of this: while the node waited for each of these parents, by rank.
    pub parents_us: Vec<(u32, u64)>,
}

/// Messages and bytes in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Messages.
    pub messages: u64,
    /// Bytes of content, without framing and encryption.
    pub bytes: u64,
}

/// Which end of a link a peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// This node requests from it.
    Parent,
    /// It requests from this node.
    Child,
}

/// A link to another node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkPart {
    /// The other node's rank.
    pub rank: u32,
    /// Which end it is.
    pub relation: Relation,
    /// From this node.
    pub sent: Traffic,
    /// To this node.
    pub received: Traffic,
    /// Requests over this link: from sending to arrival at the child's end, from arrival to answer at the parent's. Only
    /// the parent's end knows what it waited for.
    pub waits: Waits,
}

/// What a path is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Nothing is known.
    #[default]
    Unknown,
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A device, a socket, or a path that returns an error.
    Other,
}

/// Where a node got something from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// It got nothing.
    #[default]
    None,
    /// The shared file system.
    SharedFs,
    /// The node's cache.
    Cache,
    /// A parent.
    Parent,
}

/// Why a node fetched something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A parent sent it without a request.
    #[default]
    Pushed,
    /// A process requested it, or something below it.
    Process,
    /// A child requested it.
    Child,
    /// It was preloaded.
    Preload,
}

/// What a node did about one path. In JSON it is an array of its numbers in the order of the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[u64; 20]", into = "[u64; 20]")]
pub struct PathRow {
    /// The path's hash.
    pub hash: u64,
    /// What it is.
    pub kind: Kind,
    /// Where it came from last.
    pub source: Source,
    /// The parent's rank, if it came from one.
    pub source_rank: u32,
    /// Why it was fetched first.
    pub cause: Cause,
    /// Requests of processes.
    pub requests: u64,
    /// Of these, requests for names that the directory does not have.
    pub absent: u64,
    /// Time from request to answer, summed.
    pub wait_us: u64,
    /// The longest such time.
    pub wait_us_max: u64,
    /// When a process first requested it.
    pub asked_us: u64,
    /// When the node first requested it from a parent, or began to read it.
    pub fetched_us: u64,
    /// When the last part of it was there.
    pub arrived_us: u64,
    /// Time of fetching, summed over its parts.
    pub fetch_us: u64,
    /// Requests of children.
    pub child_requests: u64,
    /// Reads of the shared file system.
    pub reads: u64,
    /// Time of these reads, summed.
    pub read_us: u64,
    /// Bytes of content that came from the shared file system.
    pub shared_fs_bytes: u64,
    /// Bytes of content that came from the cache.
    pub cache_bytes: u64,
    /// Bytes of content that came from parents.
    pub parent_bytes: u64,
    /// Bytes that the store has at the end.
    pub stored_bytes: u64,
}

const KINDS: [Kind; 5] = [Kind::Unknown, Kind::File, Kind::Directory, Kind::Link, Kind::Other];
const SOURCES: [Source; 4] = [Source::None, Source::SharedFs, Source::Cache, Source::Parent];
const CAUSES: [Cause; 4] = [Cause::Pushed, Cause::Process, Cause::Child, Cause::Preload];

/// Returns the value with this number; of numbers that stand for none, the first one.
fn of<T: Copy>(all: &[T], number: u64) -> T {
    *all.get(number as usize).unwrap_or(&all[0])
}

impl From<[u64; 20]> for PathRow {
    fn from(n: [u64; 20]) -> PathRow {
        PathRow {
            hash: n[0],
            kind: of(&KINDS, n[1]),
            source: of(&SOURCES, n[2]),
            source_rank: n[3] as u32,
            cause: of(&CAUSES, n[4]),
            requests: n[5],
            absent: n[6],
            wait_us: n[7],
            wait_us_max: n[8],
            asked_us: n[9],
            fetched_us: n[10],
            arrived_us: n[11],
            fetch_us: n[12],
            child_requests: n[13],
            reads: n[14],
            read_us: n[15],
            shared_fs_bytes: n[16],
            cache_bytes: n[17],
            parent_bytes: n[18],
            stored_bytes: n[19],
        }
    }
}

impl From<PathRow> for [u64; 20] {
    fn from(row: PathRow) -> [u64; 20] {
        [
            row.hash,
            row.kind as u64,
            row.source as u64,
            row.source_rank.into(),
            row.cause as u64,
            row.requests,
            row.absent,
            row.wait_us,
            row.wait_us_max,
            row.asked_us,
            row.fetched_us,
            row.arrived_us,
            row.fetch_us,
            row.child_requests,
            row.reads,
            row.read_us,
            row.shared_fs_bytes,
            row.cache_bytes,
            row.parent_bytes,
            row.stored_bytes,
        ]
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// Content was removed from the store, to make room.
    Evicted,
    /// A process was answered with the source file.
    Fallback,
    /// The store had no room for content.
    StoreFull,
    /// A node above could not answer.
    Unavailable,
    /// A parent sent damaged content.
    Damaged,
    /// A source file has changed.
    Changed,
    /// The job changes the path, so its source file is used.
    Passthrough,
    /// A link came up.
    LinkUp,
    /// A link ended.
    LinkDown,
}

/// Something that went wrong, or was given up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventPart {
    /// When.
    pub at_us: u64,
    /// What.
    pub kind: EventKind,
    /// The path, as text, if it is about one.
    pub path: Option<String>,
    /// The other node's rank, if it is about one.
    pub rank: Option<u32>,
}

/// A node's state at a moment. Counters count from the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// When.
    pub at_us: u64,
    /// Requests of processes that have been answered.
    pub answered: u64,
    /// Requests of processes that wait.
    pub waiting: u64,
    /// Requests to parents and reads that are under way.
    pub fetching: u64,
    /// Bytes in the store.
    pub store_bytes: u64,
    /// Bytes sent to other nodes, framing and encryption included.
    pub sent_bytes: u64,
    /// Bytes received from other nodes, likewise.
    pub received_bytes: u64,
    /// Bytes read from the shared file system.
    pub shared_fs_bytes: u64,
}

impl Waits {
    /// Adds the numbers of `other`.
    pub fn add(&mut self, other: &Waits) {
        self.requests += other.requests;
        self.fallbacks += other.fallbacks;
        self.wait_us += other.wait_us;
        self.node_us += other.node_us;
        self.shared_fs_us += other.shared_fs_us;
        self.cache_us += other.cache_us;
        other.parents_us.iter().for_each(|&(rank, us)| self.add_parent(rank, us));
    }

    /// Adds time during which a parent was waited for.
    pub fn add_parent(&mut self, rank: u32, us: u64) {
        match self.parents_us.iter_mut().find(|(known, _)| *known == rank) {
            Some((_, sum)) => *sum += us,
            None => self.parents_us.push((rank, us)),
        }
    }
}

impl NodePart {
    /// Returns the part as JSON of at most [`PART_BYTES_MAX`] bytes, and leaves out paths that don't fit.
    pub fn json(&mut self) -> serde_json::Result<String> {
        loop {
            let json = serde_json::to_string(self)?;
            if json.len() <= PART_BYTES_MAX || (self.paths.is_empty() && self.names.is_empty()) {
                return Ok(json);
            }
            let stay = self.paths.len() / 2;
            self.paths_left_out += (self.paths.len() - stay) as u64;
            self.paths.truncate(stay);
            let rows: std::collections::HashSet<u64> = self.paths.iter().map(|row| row.hash).collect();
            self.names.retain(|(hash, _)| rows.contains(hash));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_were_written() {
        let numbers: [u64; 20] = std::array::from_fn(|at| if (1..5).contains(&at) { 3 } else { at as u64 * 1000 });
        let row = PathRow::from(numbers);
        assert_eq!((row.kind, row.source, row.cause), (Kind::Link, Source::Parent, Cause::Preload));
        let json = serde_json::to_string(&row).unwrap();
        assert_eq!(serde_json::from_str::<PathRow>(&json).unwrap(), row);
        let unknown = PathRow::from([99; 20]);
        assert_eq!((unknown.kind, unknown.source, unknown.cause), (Kind::Unknown, Source::None, Cause::Pushed));
    }

    #[test]
    fn a_part_has_a_limit() {
        let row = |hash| PathRow { hash, ..PathRow::default() };
        let name = |hash| (hash, "x".repeat(4000));
        let mut part = NodePart {
            paths: (0..4000).map(row).collect(),
            names: (0..4000).map(name).collect(),
            ..NodePart::default()
        };
        let json = part.json().unwrap();
        assert!(json.len() <= PART_BYTES_MAX);
        assert_eq!((part.paths.len(), part.names.len(), part.paths_left_out), (1000, 1000, 3000));
        assert_eq!(serde_json::from_str::<NodePart>(&json).unwrap(), part);
    }
}
