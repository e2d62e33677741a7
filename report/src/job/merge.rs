//! Adds the nodes' parts up, one after the other, in bounded memory.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::clock::Clock;
use super::part::{Cause, EventKind, Kind, LinkPart, NodePart, PathRow, Relation, SharedReads, Source, Traffic};
use super::schema::{Cell, Event, FORMAT, JobReport, Legs, LinkReport, NodeReport, PathReport, Run, Span, VERSION};
use super::upstream::Upstream;

/// Paths in a report; further ones are counted.
const PATHS_MAX: usize = 65_536;
/// Cells that are retained of one node until all nodes are known.
const NODE_CELLS_MAX: usize = 4096;
/// Cells in a report.
const CELLS_MAX: usize = 20_000;
/// Events in a report.
const EVENTS_MAX: usize = 4096;

/// The sum of parts.
#[derive(Debug, Default)]
pub struct Merger {
    /// When the run began, by the monotonic clock of this machine.
    began_us: u64,
    numbers: HashMap<u64, u32>,
    hashes: Vec<u64>,
    names: HashMap<u64, String>,
    paths: Vec<PathReport>,
    paths_left_out: u64,
    cells: Vec<Cell>,
    cells_left_out: u64,
    nodes: Vec<NodeReport>,
    upstream: Upstream,
    links: HashMap<(u32, u32), LinkReport>,
    events: Vec<Event>,
    events_left_out: u64,
}

impl Merger {
    /// Returns an empty sum of a run that began then, by this machine's monotonic clock, in microseconds.
    pub fn new(began_us: u64) -> Merger {
        Merger { began_us, ..Merger::default() }
    }

    /// Adds a node's part; `clock` relates its clock to this machine's.
    pub fn add(&mut self, mut part: NodePart, clock: Clock) {
        let (difference_us, clock_error_us) = clock.difference_us();
        let started_us = part.started_us as i64 + difference_us - self.began_us as i64;
        let moment = |us: u64| (us > 0).then_some(started_us + us as i64);
        for (hash, name) in std::mem::take(&mut part.names) {
            self.names.entry(hash).or_insert(name);
        }
        self.paths_left_out += part.paths_left_out;
        let mut cells = Vec::with_capacity(part.paths.len());
        for row in std::mem::take(&mut part.paths) {
            let Some(path) = self.number(row.hash) else {
                self.paths_left_out += 1;
                continue;
            };
            add_row(&mut self.paths[path as usize], &row, part.rank, moment);
            cells.push(cell(&row, path, part.rank, moment));
        }
        if cells.len() > NODE_CELLS_MAX {
            cells.select_nth_unstable_by_key(NODE_CELLS_MAX, |cell| Reverse((cell.wait_us, cell.arrived_us)));
            self.cells_left_out += (cells.len() - NODE_CELLS_MAX) as u64;
            cells.truncate(NODE_CELLS_MAX);
        }
        self.cells.append(&mut cells);
        self.add_links(&part);
        self.upstream.add(&part);
        self.events_left_out += part.events_left_out;
        for event in std::mem::take(&mut part.events) {
            if self.events.len() == EVENTS_MAX {
                self.events_left_out += 1;
                continue;
            }
            self.events.push(Event {
                at_us: started_us + event.at_us as i64,
                rank: part.rank,
                kind: event.kind,
                path: event.path,
                peer: event.rank,
            });
        }
        self.nodes.push(NodeReport {
            rank: part.rank,
            name: part.name,
            started_us,
            clock_error_us,
            is_successor: part.is_successor,
            shared_fs: part.shared_fs,
            processes: part.processes,
            legs: Legs::default(),
            snapshots: part.snapshots,
        });
    }

    /// Returns the number of a path; `None` if there is no room for a new one.
    fn number(&mut self, hash: u64) -> Option<u32> {
        if let Some(&number) = self.numbers.get(&hash) {
            return Some(number);
        }
        if self.paths.len() == PATHS_MAX {
            return None;
        }
        self.numbers.insert(hash, self.paths.len() as u32);
        self.hashes.push(hash);
        self.paths.push(PathReport::default());
        Some(self.paths.len() as u32 - 1)
    }

    fn add_links(&mut self, part: &NodePart) {
        for LinkPart { rank, relation, sent, received, .. } in &part.links {
            let (parent, child) = match relation {
                Relation::Parent => (*rank, part.rank),
                Relation::Child => (part.rank, *rank),
            };
            let link =
                self.links.entry((parent, child)).or_insert(LinkReport { parent, child, ..LinkReport::default() });
            // What arrived may be less than what was sent, if a node was lost.
            let (up, down) = match relation {
                Relation::Parent => (sent, received),
                Relation::Child => (received, sent),
            };
            more(&mut link.up, up);
            more(&mut link.down, down);
        }
    }

    /// Returns the report of a run on so many ranks.
    pub fn finish(mut self, run: Run, ranks: u32) -> JobReport {
        self.nodes.sort_by_key(|node| node.rank);
        let mut shared_fs = SharedReads::default();
        let mut legs = Legs::default();
        let apportioned = self.upstream.apportion();
        for node in &mut self.nodes {
            node.legs = apportioned.legs(node.rank, &node.processes);
            legs.add(&node.legs);
            shared_fs.files += node.shared_fs.files;
            shared_fs.directories += node.shared_fs.directories;
            shared_fs.bytes += node.shared_fs.bytes;
            shared_fs.operations += node.shared_fs.operations;
        }
        let is_here = |rank: &u32| self.nodes.binary_search_by_key(rank, |node| node.rank).is_ok();
        let missing_ranks = (0..ranks).filter(|rank| !is_here(rank)).collect();
        let mut links: Vec<LinkReport> = std::mem::take(&mut self.links).into_values().collect();
        links.sort_by_key(|link| (link.parent, link.child));
        for link in &mut links {
            let (child, parent) = self.upstream.ends(link.child, link.parent);
            link.requests = child.requests.max(parent.requests);
            link.wait_us = child.wait_us;
            (link.parent_us, link.shared_fs_us) = (parent.wait_us, parent.shared_fs_us);
        }
        for (path, hash) in self.paths.iter_mut().zip(&self.hashes) {
            path.path = self.names.remove(hash).unwrap_or_else(|| format!("(a path without a name: {hash:016x})"));
        }
        // When the program has ended, nodes end one after the other, and so do their links.
        let end_us = run.program_exit_us.map_or(i64::MAX, |us| us as i64);
        self.events.retain(|event| event.kind != EventKind::LinkDown || event.at_us < end_us);
        self.events.sort_by_key(|event| event.at_us);
        let cells_left_out = self.choose_cells();
        self.order_paths();
        JobReport {
            format: FORMAT.into(),
            version: VERSION,
            run,
            nodes: self.nodes,
            missing_ranks,
            shared_fs,
            legs,
            links,
            paths: self.paths,
            paths_left_out: self.paths_left_out,
            cells: self.cells,
            cells_left_out,
            events: self.events,
            events_left_out: self.events_left_out,
        }
    }

    /// Retains the cells of the paths for which processes waited longest; returns how many are left out in all.
    fn choose_cells(&mut self) -> u64 {
        let mut counts = vec![0usize; self.paths.len()];
        self.cells.iter().for_each(|cell| counts[cell.path as usize] += 1);
        let mut order: Vec<usize> = (0..self.paths.len()).collect();
        order.sort_by_key(|&path| {
            Reverse((self.paths[path].wait_us, self.paths[path].arrived.map(|span| span.last_us)))
        });
        let mut stays = vec![false; self.paths.len()];
        let mut room = CELLS_MAX;
        for path in order {
            if counts[path] > room {
                break;
            }
            room -= counts[path];
            stays[path] = true;
        }
        let before = self.cells.len();
        self.cells.retain(|cell| stays[cell.path as usize]);
        self.cells_left_out + (before - self.cells.len()) as u64
    }

    /// Puts paths into the order of their first moments, and cells into the order of paths and ranks.
    fn order_paths(&mut self) {
        let first = |path: &PathReport| {
            let spans = [path.fetched, path.asked, path.arrived];
            spans.iter().flatten().map(|span| span.first_us).min().unwrap_or(i64::MAX)
        };
        let mut order: Vec<usize> = (0..self.paths.len()).collect();
        order.sort_by(|&a, &b| {
            let key = |at: usize| (first(&self.paths[at]), &self.paths[at].path);
            key(a).cmp(&key(b))
        });
        let mut places = vec![0; order.len()];
        let mut before: Vec<PathReport> = std::mem::take(&mut self.paths);
        for (place, &number) in order.iter().enumerate() {
            places[number] = place as u32;
            self.paths.push(std::mem::take(&mut before[number]));
        }
        self.cells.iter_mut().for_each(|cell| cell.path = places[cell.path as usize]);
        self.cells.sort_by_key(|cell| (cell.path, cell.rank));
    }
}

/// Takes the larger numbers of both ends.
fn more(traffic: &mut Traffic, other: &Traffic) {
    traffic.messages = traffic.messages.max(other.messages);
    traffic.bytes = traffic.bytes.max(other.bytes);
}

fn add_row(path: &mut PathReport, row: &PathRow, rank: u32, moment: impl Fn(u64) -> Option<i64>) {
    if row.kind != Kind::Unknown {
        path.kind = row.kind;
    }
    let nodes = &mut path.nodes;
    nodes.known += 1;
    nodes.requested += u32::from(row.requests > 0);
    match row.source {
        Source::SharedFs => nodes.shared_fs += 1,
        Source::Cache => nodes.cache += 1,
        Source::Parent => nodes.parent += 1,
        Source::None => {}
    }
    nodes.pushed += u32::from(row.cause == Cause::Pushed && row.arrived_us > 0);
    nodes.preloaded += u32::from(row.cause == Cause::Preload);
    nodes.stored += u32::from(row.stored_bytes > 0);
    extend(&mut path.asked, moment(row.asked_us));
    extend(&mut path.fetched, moment(row.fetched_us));
    extend(&mut path.arrived, moment(row.arrived_us));
    path.requests += row.requests;
    path.absent += row.absent;
    path.wait_us += row.wait_us;
    if row.wait_us_max > path.wait_us_max {
        (path.wait_us_max, path.wait_rank) = (row.wait_us_max, Some(rank));
    }
    path.child_requests += row.child_requests;
    path.reads += row.reads;
    path.read_us += row.read_us;
    path.shared_fs_bytes += row.shared_fs_bytes;
    path.cache_bytes += row.cache_bytes;
    path.parent_bytes += row.parent_bytes;
    path.stored_bytes += row.stored_bytes;
}

fn extend(span: &mut Option<Span>, at_us: Option<i64>) {
    let Some(at_us) = at_us else { return };
    let span = span.get_or_insert(Span { first_us: at_us, last_us: at_us });
    (span.first_us, span.last_us) = (span.first_us.min(at_us), span.last_us.max(at_us));
}

fn cell(row: &PathRow, path: u32, rank: u32, moment: impl Fn(u64) -> Option<i64>) -> Cell {
    Cell {
        path,
        rank,
        source: row.source,
        parent: (row.source == Source::Parent).then_some(row.source_rank),
        cause: row.cause,
        asked_us: moment(row.asked_us),
        fetched_us: moment(row.fetched_us),
        arrived_us: moment(row.arrived_us),
        wait_us: row.wait_us,
        wait_us_max: row.wait_us_max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::part::EventPart;

    fn row(hash: u64, source: Source, fetched_us: u64) -> PathRow {
        PathRow {
            hash,
            kind: Kind::File,
            source,
            cause: Cause::Process,
            requests: 2,
            wait_us: 50,
            wait_us_max: 40,
            asked_us: fetched_us,
            fetched_us,
            arrived_us: fetched_us + 30,
            shared_fs_bytes: if source == Source::SharedFs { 100 } else { 0 },
            parent_bytes: if source == Source::Parent { 100 } else { 0 },
            stored_bytes: 4096,
            ..PathRow::default()
        }
    }

    #[test]
    fn nodes_add_up_on_one_clock() {
        let mut merger = Merger::new(1_000);
        let reader = NodePart {
            rank: 0,
            started_us: 1_100,
            shared_fs: SharedReads { files: 2, bytes: 300, ..SharedReads::default() },
            paths: vec![row(7, Source::SharedFs, 10), row(8, Source::SharedFs, 5)],
            names: vec![(7, "/sw/b".into()), (8, "/sw/a".into())],
            ..NodePart::default()
        };
        let event = EventPart { at_us: 3, kind: EventKind::Evicted, path: Some("/sw/b".into()), rank: None };
        let other = NodePart {
            rank: 2,
            started_us: 50,
            paths: vec![PathRow { source_rank: 0, wait_us_max: 90, ..row(7, Source::Parent, 20) }],
            paths_left_out: 4,
            events: vec![event],
            ..NodePart::default()
        };
        let mut clock = Clock::default();
        clock.received(100, 1_210);
        clock.sent(1_300, 210);
        merger.add(other, clock);
        merger.add(reader, Clock::same());
        let report = merger.finish(Run::default(), 3);
        assert_eq!((report.shared_fs.files, report.shared_fs.bytes, report.paths_left_out), (2, 300, 4));
        assert_eq!(report.missing_ranks, [1]);
        assert_eq!(
            report.nodes.iter().map(|node| (node.rank, node.clock_error_us)).collect::<Vec<_>>(),
            [(0, Some(0)), (2, Some(10))]
        );
        let names: Vec<&str> = report.paths.iter().map(|path| path.path.as_str()).collect();
        assert_eq!(names, ["/sw/a", "/sw/b"]);
        let path = &report.paths[1];
        // The node's clock is 1,100 behind: it fetched at 50 + 20 + 1,100, which is 170 after the beginning.
        assert_eq!(path.fetched, Some(Span { first_us: 110, last_us: 170 }));
        assert_eq!((path.requests, path.wait_us, path.wait_us_max, path.wait_rank), (4, 100, 90, Some(2)));
        assert_eq!((path.shared_fs_bytes, path.parent_bytes, path.stored_bytes), (100, 100, 8192));
        assert_eq!((path.nodes.known, path.nodes.shared_fs, path.nodes.parent), (2, 1, 1));
        assert_eq!(
            report.cells.iter().map(|cell| (cell.path, cell.rank)).collect::<Vec<_>>(),
            [(0, 0), (1, 0), (1, 2)]
        );
        assert_eq!((report.events[0].at_us, report.events[0].rank), (153, 2));
    }

    #[test]
    fn cells_have_a_limit() {
        let mut merger = Merger::new(0);
        for rank in 0..64 {
            let rows = (0..5_000).map(|hash| PathRow { wait_us: hash, ..row(hash, Source::SharedFs, hash + 1) });
            merger.add(NodePart { rank, paths: rows.collect(), ..NodePart::default() }, Clock::same());
        }
        let report = merger.finish(Run::default(), 64);
        assert_eq!((report.paths.len(), report.cells.len()), (5_000, CELLS_MAX / 64 * 64));
        assert_eq!(report.cells_left_out, 64 * 5_000 - report.cells.len() as u64);
        let waits = report.cells.iter().map(|cell| cell.wait_us).min();
        assert_eq!(waits, Some(5_000 - CELLS_MAX as u64 / 64));
    }
}
