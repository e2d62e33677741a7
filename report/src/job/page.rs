//! The report as a page: a waterfall over files, one over nodes, and tables.

use std::cmp::Reverse;

use super::part::{Cause, Source};
use super::schema::{Cell as NodeCell, JobReport, PathReport};
use super::text::{event_name, headline, kind, leg_rows, remarks, source, time};
use crate::page::{Category, Cell, Column, Page, Section, Table, Timeline};

/// Waits of single nodes that the page shows; JSON has more.
const WAITS_MAX: usize = 2000;
/// Snapshots of one node that the page shows.
const SNAPSHOTS_MAX: usize = 32;
/// Nodes whose snapshots the page shows.
const SNAPSHOT_NODES_MAX: usize = 32;

/// Returns the report as a page.
pub fn page(report: &JobReport) -> Page {
    let command = report.run.command.join(" ");
    let mut page = Page::new(format!("Start of {command}")).lead(headline(report));
    for remark in remarks(report) {
        page = page.lead(remark);
    }
    let sections = [
        Some(summary(report)),
        Some(files(report)),
        Some(nodes(report)),
        links(report),
        events(report),
        snapshots(report),
    ];
    sections.into_iter().flatten().fold(page, Page::section)
}

fn summary(report: &JobReport) -> Section {
    let run = &report.run;
    let moment = |us: Option<u64>| us.map_or("-".into(), time);
    let shared = &report.shared_fs;
    let mut section = Section::new("Where processes waited")
        .fact("Daemons ready", moment(run.daemons_ready_us), "after the beginning of headwater run")
        .fact("Program's end", moment(run.program_exit_us), "after the beginning")
        .fact("Waited", time(report.legs.wait_us), "all requests of all processes, summed")
        .fact("Files read", number(shared.files), "from the shared file system, by all nodes")
        .fact("Directories read", number(shared.directories), "likewise")
        .fact("Bytes read", headwater_figures::text::size(shared.bytes), "likewise")
        .text(
            "A process waits for its node's daemon; this waits for a parent over a link, that one for its own parent, \
             and the last one reads the shared file system. What a node waited for a parent is apportioned as that \
             parent spent the time of this node's requests. A link's part includes the time until the daemon at its \
             end runs and reads the message, which is long where processors are busy.",
        );
    for (name, us) in leg_rows(&report.legs) {
        section = section.share(name, us as f64, time(us));
    }
    section
}

/// The categories of bars, the same in all time-lines.
struct Categories {
    shared_fs: Category,
    parent: Category,
    cache: Category,
    spread: Category,
    wait: Category,
    pushed: Category,
}

impl Categories {
    fn of(timeline: &mut Timeline) -> Categories {
        Categories {
            shared_fs: timeline.category("from the shared file system"),
            parent: timeline.category("from a parent"),
            cache: timeline.category("from the node's cache"),
            spread: timeline.category("until the last node had it"),
            wait: timeline.category("a process waits"),
            pushed: timeline.category("sent or preloaded without a request"),
        }
    }

    fn of_source(&self, of: Source) -> Category {
        match of {
            Source::SharedFs => self.shared_fs,
            Source::Cache => self.cache,
            Source::Parent | Source::None => self.parent,
        }
    }
}

fn files(report: &JobReport) -> Section {
    let mut timeline = Timeline::new("time since the beginning of headwater run");
    let categories = Categories::of(&mut timeline);
    for path in &report.paths {
        add_bars(&mut timeline, &categories, path);
    }
    let mut section = Section::new("Files and directories").text(
        "A row is a path. Its first bar is from the first node's request to its first arrival anywhere; the second \
         bar lasts until the last node had it. A file of which the entry and the content were fetched at different \
         times has one bar from the first request to the last part.",
    );
    if !timeline.is_empty() {
        section = section.timeline(timeline);
    }
    section.table(path_table(report))
}

fn add_bars(timeline: &mut Timeline, categories: &Categories, path: &PathReport) {
    let Some(arrived) = path.arrived else { return };
    let begin_us = path.fetched.or(path.asked).map_or(arrived.first_us, |span| span.first_us);
    let from = match path.nodes {
        nodes if nodes.shared_fs > 0 => Source::SharedFs,
        nodes if nodes.cache > 0 => Source::Cache,
        _ => Source::Parent,
    };
    let category = if path.fetched.is_none() { categories.pushed } else { categories.of_source(from) };
    let row = timeline.row(&path.path);
    row.bar(ns(begin_us), ns(arrived.first_us), category, kind(path.kind));
    if arrived.last_us > arrived.first_us {
        row.bar(ns(arrived.first_us), ns(arrived.last_us), categories.spread, kind(path.kind));
    }
}

fn path_table(report: &JobReport) -> Table {
    let mut table = Table::new([
        Column::text("path"),
        Column::text("kind"),
        Column::nanoseconds("first asked"),
        Column::nanoseconds("first there"),
        Column::nanoseconds("last there"),
        Column::nanoseconds("waited"),
        Column::nanoseconds("longest wait"),
        Column::count("on rank"),
        Column::count("requests"),
        Column::count("absent names"),
        Column::count("of children"),
        Column::count("reads"),
        Column::nanoseconds("reading"),
        Column::bytes("from shared fs"),
        Column::bytes("from parents"),
        Column::bytes("from caches"),
        Column::count("nodes"),
        Column::count("sent unasked"),
        Column::count("nodes that have it"),
        Column::bytes("stored at the end"),
    ]);
    for path in &report.paths {
        let moment = |us: Option<i64>| us.map_or(Cell::Empty, |us| Cell::number(ns(us)));
        table.row([
            Cell::text(&path.path),
            Cell::text(kind(path.kind)),
            moment(path.asked.map(|span| span.first_us)),
            moment(path.arrived.map(|span| span.first_us)),
            moment(path.arrived.map(|span| span.last_us)),
            Cell::number(path.wait_us * 1000),
            Cell::number(path.wait_us_max * 1000),
            path.wait_rank.map_or(Cell::Empty, |rank| Cell::number(rank.into())),
            Cell::number(path.requests),
            Cell::number(path.absent),
            Cell::number(path.child_requests),
            Cell::number(path.reads),
            Cell::number(path.read_us * 1000),
            Cell::number(path.shared_fs_bytes),
            Cell::number(path.parent_bytes),
            Cell::number(path.cache_bytes),
            Cell::number(path.nodes.known.into()),
            Cell::number(path.nodes.pushed.into()),
            Cell::number(path.nodes.stored.into()),
            Cell::number(path.stored_bytes),
        ]);
    }
    table
}

fn nodes(report: &JobReport) -> Section {
    let mut table = Table::new([
        Column::count("rank"),
        Column::text("node"),
        Column::count("requests"),
        Column::nanoseconds("waited"),
        Column::nanoseconds("own daemon"),
        Column::nanoseconds("links"),
        Column::nanoseconds("parents"),
        Column::nanoseconds("caches"),
        Column::nanoseconds("shared fs"),
        Column::count("files read"),
        Column::bytes("bytes read"),
        Column::count("fallbacks"),
        Column::nanoseconds("clock error"),
    ]);
    for node in &report.nodes {
        let (legs, processes) = (&node.legs, &node.processes);
        table.row([
            Cell::number(node.rank.into()),
            Cell::text(&node.name),
            Cell::number(processes.requests),
            Cell::number(legs.wait_us * 1000),
            Cell::number(legs.node_us * 1000),
            Cell::number(legs.links_us * 1000),
            Cell::number(legs.parents_us * 1000),
            Cell::number(legs.cache_us * 1000),
            Cell::number(legs.shared_fs_us * 1000),
            Cell::number(node.shared_fs.files),
            Cell::number(node.shared_fs.bytes),
            Cell::number(processes.fallbacks),
            node.clock_error_us.map_or(Cell::Empty, |us| Cell::number(us * 1000)),
        ]);
    }
    let mut timeline = Timeline::new("time since the beginning of headwater run");
    let categories = Categories::of(&mut timeline);
    for node in &report.nodes {
        let row = timeline.row(label(node.rank, &node.name));
        for cell in report.cells.iter().filter(|cell| cell.rank == node.rank) {
            let Some((from, to, category)) = span(cell, &categories) else { continue };
            row.bar(from, to, category, &report.paths[cell.path as usize].path);
        }
    }
    let section = Section::new("Nodes").text(
        "A row is a node. Each bar is a path that the node fetched, or got without a request; where several are fetched \
         at once, bars cover each other.",
    );
    let section = if timeline.is_empty() { section } else { section.timeline(timeline) };
    let section = section.table(table).text(
        "The paths for which processes waited longest, on each node: the wait from the first request on, and over it \
         the time in which the node fetched the path. A wait before the fetch was for a directory above, or for the \
         daemon itself.",
    );
    section.timeline(waits(report)).table(cell_table(report))
}

/// Returns the longest waits, one row for each path and node.
fn waits(report: &JobReport) -> Timeline {
    let mut timeline = Timeline::new("time since the beginning of headwater run");
    let categories = Categories::of(&mut timeline);
    for cell in longest(report) {
        let Some(asked_us) = cell.asked_us else { continue };
        let path = &report.paths[cell.path as usize].path;
        let row = timeline.row(format!("{path} on rank {}", cell.rank));
        row.bar(ns(asked_us), ns(asked_us) + cell.wait_us_max * 1000, categories.wait, source(cell.source));
        if let Some((from, to, category)) = span(cell, &categories) {
            row.bar(from, to, category, source(cell.source));
        }
    }
    timeline
}

/// Returns the cells with the longest waits, in the order of time.
fn longest(report: &JobReport) -> Vec<&NodeCell> {
    let mut cells: Vec<&NodeCell> = report.cells.iter().filter(|cell| cell.wait_us > 0).collect();
    cells.sort_by_key(|cell| Reverse(cell.wait_us_max));
    cells.truncate(WAITS_MAX);
    cells.sort_by_key(|cell| cell.asked_us);
    cells
}

/// Returns a bar of one path on one node.
fn span(cell: &NodeCell, categories: &Categories) -> Option<(u64, u64, Category)> {
    let arrived_us = cell.arrived_us?;
    match cell.fetched_us {
        Some(fetched_us) => Some((ns(fetched_us), ns(arrived_us), categories.of_source(cell.source))),
        None => Some((ns(arrived_us), ns(arrived_us), categories.pushed)),
    }
}

fn cell_table(report: &JobReport) -> Table {
    let mut table = Table::new([
        Column::text("path"),
        Column::count("rank"),
        Column::text("from"),
        Column::count("parent"),
        Column::text("because"),
        Column::nanoseconds("asked"),
        Column::nanoseconds("fetched"),
        Column::nanoseconds("there"),
        Column::nanoseconds("waited"),
        Column::nanoseconds("longest wait"),
    ]);
    let moment = |us: Option<i64>| us.map_or(Cell::Empty, |us| Cell::number(ns(us)));
    for cell in longest(report) {
        table.row([
            Cell::text(&report.paths[cell.path as usize].path),
            Cell::number(cell.rank.into()),
            Cell::text(source(cell.source)),
            cell.parent.map_or(Cell::Empty, |rank| Cell::number(rank.into())),
            Cell::text(match cell.cause {
                Cause::Pushed => "a parent sent it",
                Cause::Process => "a process",
                Cause::Child => "a child",
                Cause::Preload => "preloading",
            }),
            moment(cell.asked_us),
            moment(cell.fetched_us),
            moment(cell.arrived_us),
            Cell::number(cell.wait_us * 1000),
            Cell::number(cell.wait_us_max * 1000),
        ]);
    }
    table
}

fn links(report: &JobReport) -> Option<Section> {
    if report.links.is_empty() {
        return None;
    }
    let mut table = Table::new([
        Column::count("child"),
        Column::count("parent"),
        Column::count("requests"),
        Column::nanoseconds("waited"),
        Column::nanoseconds("at the parent"),
        Column::nanoseconds("in the shared fs there"),
        Column::count("messages down"),
        Column::bytes("content down"),
        Column::count("messages up"),
    ]);
    for link in &report.links {
        table.row([
            Cell::number(link.child.into()),
            Cell::number(link.parent.into()),
            Cell::number(link.requests),
            Cell::number(link.wait_us * 1000),
            Cell::number(link.parent_us * 1000),
            Cell::number(link.shared_fs_us * 1000),
            Cell::number(link.down.messages),
            Cell::number(link.down.bytes),
            Cell::number(link.up.messages),
        ]);
    }
    Some(
        Section::new("Links")
            .text("Times are sums over requests, which overlap. Bytes are those of content, without framing.")
            .table(table),
    )
}

fn events(report: &JobReport) -> Option<Section> {
    if report.events.is_empty() {
        return None;
    }
    let mut table = Table::new([
        Column::nanoseconds("at"),
        Column::count("rank"),
        Column::text("event"),
        Column::count("other rank"),
        Column::text("path"),
    ]);
    for event in &report.events {
        table.row([
            Cell::number(ns(event.at_us)),
            Cell::number(event.rank.into()),
            Cell::text(event_name(event.kind)),
            event.peer.map_or(Cell::Empty, |rank| Cell::number(rank.into())),
            event.path.as_ref().map_or(Cell::Empty, Cell::text),
        ]);
    }
    Some(Section::new("Events").text("What was given up, evicted or lost.").table(table))
}

fn snapshots(report: &JobReport) -> Option<Section> {
    let mut table = Table::new([
        Column::nanoseconds("at"),
        Column::count("rank"),
        Column::count("answered"),
        Column::count("waiting"),
        Column::count("fetching"),
        Column::bytes("store"),
        Column::bytes("sent"),
        Column::bytes("received"),
        Column::bytes("read from shared fs"),
    ]);
    for node in report.nodes.iter().take(SNAPSHOT_NODES_MAX) {
        let step = node.snapshots.len().div_ceil(SNAPSHOTS_MAX).max(1);
        for snapshot in node.snapshots.iter().step_by(step) {
            table.row([
                Cell::number(ns(node.started_us + snapshot.at_us as i64)),
                Cell::number(node.rank.into()),
                Cell::number(snapshot.answered),
                Cell::number(snapshot.waiting),
                Cell::number(snapshot.fetching),
                Cell::number(snapshot.store_bytes),
                Cell::number(snapshot.sent_bytes),
                Cell::number(snapshot.received_bytes),
                Cell::number(snapshot.shared_fs_bytes),
            ]);
        }
    }
    (!table.is_empty()).then(|| {
        Section::new("Snapshots")
            .text("Each node's state at intervals. There is none while nothing happens.")
            .table(table)
    })
}

fn label(rank: u32, name: &str) -> String {
    if name.is_empty() { format!("rank {rank}") } else { format!("rank {rank}, {name}") }
}

fn number(number: u64) -> String {
    headwater_figures::text::grouped(number)
}

/// Returns a moment in nanoseconds; what was before the beginning, by an inexact clock, is at the beginning.
fn ns(us: i64) -> u64 {
    us.max(0) as u64 * 1000
}
