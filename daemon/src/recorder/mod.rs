//! What this node does about each path and over each link, for `headwater run --report`: see `docs/guide/report.md`.
//!
//! The driver passes all inputs and outputs of the node. What is recorded of each has a fixed size, and the records are
//! limited in number. Without `--report` there is no recorder.

mod exchange;
mod kinds;
mod paths;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Instant;

use headwater_abi::{Path, Want};
use headwater_proto::{ClientId, Rank, Time};
use headwater_report::job::{
    Cause, EventKind, EventPart, Kind, LinkPart, NodePart, Relation, Snapshot, Traffic, Waits,
};

pub(crate) use self::kinds::kind_of;
use self::paths::{Leg, Paths, Piece};
use crate::config::Config;
use crate::control_socket::links;

/// Events that are recorded; further ones are counted.
const EVENTS_MAX: usize = 512;
/// Snapshots that are recorded. When they are full, every second one is dropped, and the interval doubles.
const SNAPSHOTS_MAX: usize = 64;
/// The first interval of snapshots, in microseconds.
const SNAPSHOT_INTERVAL_US: Time = 20_000;
/// Requests of children that are remembered until their answer.
const CHILD_REQUESTS_MAX: usize = 65_536;

/// The records of a node.
#[derive(Debug)]
pub(crate) struct Recorder {
    origin: Instant,
    part: NodePart,
    paths: Paths,
    links: BTreeMap<(Relation, u32), LinkPart>,
    waiting: HashMap<ClientId, Waiting>,
    /// Processes among those that wait.
    processes_waiting: u64,
    /// By rank and piece: when a child requested it.
    child_requests: HashMap<(u32, Path, Piece), Time>,
    /// Transfers from parents, by rank and number.
    transfers: HashMap<(u32, u64), (Path, Piece)>,
    /// Links that have ended.
    lost: BTreeSet<(Relation, u32)>,
    /// The reason of what the node fetches while it handles this input.
    cause: Cause,
    /// When the next request began, if that was before it reached the event loop.
    began: Option<Instant>,
    snapshot_interval_us: Time,
    next_snapshot_us: Time,
}

/// A request that waits.
#[derive(Debug)]
struct Waiting {
    path: Path,
    want: Want,
    since_us: Time,
    is_preload: bool,
}

/// What a request led to.
pub(crate) struct Resolved {
    /// The path behind all links.
    pub(crate) path: Path,
    /// What it is; `None` if there is none.
    pub(crate) kind: Option<Kind>,
}

impl Recorder {
    /// Begins to record on this rank. A successor records from its own start.
    pub(crate) fn start(config: &Config) -> Recorder {
        Recorder::of(config.rank, links::names(config).name(Rank(config.rank)).unwrap_or_default(), config.recover)
    }

    fn of(rank: u32, name: String, is_successor: bool) -> Recorder {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let started_us = now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000;
        Recorder {
            origin: Instant::now(),
            part: NodePart { rank, name, started_us, is_successor, ..NodePart::default() },
            paths: Paths::default(),
            links: BTreeMap::new(),
            waiting: HashMap::new(),
            processes_waiting: 0,
            child_requests: HashMap::new(),
            transfers: HashMap::new(),
            lost: BTreeSet::new(),
            cause: Cause::Process,
            began: None,
            snapshot_interval_us: SNAPSHOT_INTERVAL_US,
            next_snapshot_us: SNAPSHOT_INTERVAL_US,
        }
    }

    fn now_us(&self) -> Time {
        self.since_start(Instant::now())
    }

    fn since_start(&self, at: Instant) -> Time {
        (at.saturating_duration_since(self.origin).as_micros() as Time).max(1)
    }

    /// Notes when the next request of a process began.
    pub(crate) fn request_began(&mut self, at: Instant) {
        self.began = Some(at);
    }

    /// Returns the path of a request that waits, and what is wanted of it.
    pub(crate) fn waiting(&self, client: ClientId) -> Option<(Path, Want)> {
        self.waiting.get(&client).map(|waiting| (waiting.path.clone(), waiting.want))
    }

    /// Notes the answer to a request; `resolved` is unknown if the source file is used.
    pub(crate) fn replied(&mut self, client: ClientId, resolved: Option<Resolved>) {
        let Some(Waiting { path, since_us, is_preload, .. }) = self.waiting.remove(&client) else { return };
        if is_preload {
            return;
        }
        self.processes_waiting -= 1;
        let now_us = self.now_us();
        let wait_us = now_us - since_us;
        let is_fallback = resolved.is_none();
        let (path, kind) = resolved.map_or((path, Some(Kind::Unknown)), |resolved| (resolved.path, resolved.kind));
        let legs = self.paths.legs(&path, since_us, now_us);
        add_wait(&mut self.part.processes, wait_us, &legs);
        self.part.processes.fallbacks += u64::from(is_fallback);
        if is_fallback {
            self.event(EventKind::Fallback, Some(&path), None);
        }
        // Absent names are without number; their directory stands for them.
        let is_absent = kind.is_none();
        let path = if is_absent { path.parent().unwrap_or(path) } else { path };
        let Some(row) = self.paths.row(&path) else { return };
        row.requests += 1;
        row.absent += u64::from(is_absent);
        row.wait_us += wait_us;
        row.wait_us_max = row.wait_us_max.max(wait_us);
        if row.asked_us == 0 || since_us < row.asked_us {
            row.asked_us = since_us;
        }
        match kind {
            Some(Kind::Unknown) | None => {}
            Some(kind) => row.kind = kind,
        }
    }

    fn event(&mut self, kind: EventKind, path: Option<&Path>, rank: Option<u32>) {
        if self.part.events.len() == EVENTS_MAX {
            self.part.events_left_out += 1;
            return;
        }
        let path = path.map(|path| headwater_report::page::printable(path.as_bytes()));
        let at_us = self.now_us();
        self.part.events.push(EventPart { at_us, kind, path, rank });
    }

    fn link(&mut self, relation: Relation, rank: u32) -> &mut LinkPart {
        let new = || LinkPart {
            rank,
            relation,
            sent: Traffic::default(),
            received: Traffic::default(),
            waits: Waits::default(),
        };
        self.links.entry((relation, rank)).or_insert_with(new)
    }

    /// Returns true if it is time for a snapshot. There is none while nothing happens.
    pub(crate) fn wants_snapshot(&self) -> bool {
        self.now_us() >= self.next_snapshot_us
    }

    /// Adds a snapshot, whose moment and requests are filled in.
    pub(crate) fn snapshot(&mut self, snapshot: Snapshot) {
        let at_us = self.now_us();
        let snapshots = &mut self.part.snapshots;
        if snapshots.len() == SNAPSHOTS_MAX {
            let mut number = 0;
            snapshots.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.snapshot_interval_us *= 2;
        }
        self.next_snapshot_us = at_us + self.snapshot_interval_us;
        snapshots.push(Snapshot {
            at_us,
            answered: self.part.processes.requests,
            waiting: self.processes_waiting,
            fetching: self.paths.fetching() as u64,
            ..snapshot
        });
    }

    /// Returns all records. `stored` returns the bytes of a path's copy.
    pub(crate) fn finish(self, stored: impl Fn(&Path) -> u64) -> NodePart {
        let (paths, names, paths_left_out) = self.paths.finish(stored);
        NodePart { paths, names, paths_left_out, links: self.links.into_values().collect(), ..self.part }
    }
}

/// Adds a request that has been answered, and what was fetched meanwhile.
fn add_wait(waits: &mut Waits, wait_us: u64, legs: &[(Leg, u64)]) {
    waits.requests += 1;
    waits.wait_us += wait_us;
    let mut fetched_us = 0;
    for &(leg, us) in legs {
        fetched_us += us;
        match leg {
            Leg::SharedFs => waits.shared_fs_us += us,
            Leg::Cache => waits.cache_us += us,
            Leg::Parent(rank) => waits.add_parent(rank, us),
        }
    }
    waits.node_us += wait_us.saturating_sub(fetched_us);
}
