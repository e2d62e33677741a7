//! The report as text: tables for a terminal or a mail.

use std::cmp::Reverse;
use std::fmt::Write;

use headwater_figures::text::{bytes, columns, grouped, nanoseconds};

use super::part::{EventKind, Kind, Source};
use super::schema::{Event, JobReport, Legs, LinkReport, NodeReport, PathReport};

/// Rows of each table in the text; JSON has all.
const ROWS_MAX: usize = 50;

/// Returns the report as text, with the first 50 rows of each table.
pub fn text(report: &JobReport) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}\n", headline(report));
    for line in remarks(report) {
        let _ = writeln!(text, "{line}");
    }
    let legs = |legs: &Legs| {
        let rows: Vec<Vec<String>> = leg_rows(legs)
            .into_iter()
            .map(|(name, us)| vec![name.into(), time(us), percent(us, legs.wait_us)])
            .collect();
        columns(&[vec![vec!["where processes waited".into(), "time".into(), "of all".into()]], rows].concat(), 1)
    };
    let _ = writeln!(text, "\n{}", legs(&report.legs));
    table(&mut text, "nodes", &NODE_HEADINGS, report.nodes.iter().map(node_row), 2);
    table(&mut text, "links", &LINK_HEADINGS, report.links.iter().map(link_row), 2);
    let mut paths: Vec<&PathReport> = report.paths.iter().collect();
    paths.sort_by_key(|path| Reverse((path.wait_us, path.requests)));
    table(&mut text, "paths, by wait", &PATH_HEADINGS, paths.into_iter().map(path_row), 2);
    table(&mut text, "events", &EVENT_HEADINGS, report.events.iter().map(event_row), 1);
    text
}

fn table<const N: usize>(
    text: &mut String,
    title: &str,
    headings: &[&str; N],
    rows: impl ExactSizeIterator<Item = [String; N]>,
    left: usize,
) {
    let all = rows.len();
    if all == 0 {
        return;
    }
    let more = if all > ROWS_MAX { format!(": {ROWS_MAX} of {}", grouped(all as u64)) } else { String::new() };
    let heading = headings.iter().map(|&heading| heading.to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(heading).chain(rows.take(ROWS_MAX).map(Vec::from)).collect();
    let _ = writeln!(text, "{title}{more}\n{}", columns(&rows, left));
}

/// Returns what the report is about, in one line.
pub(super) fn headline(report: &JobReport) -> String {
    let run = &report.run;
    let took = run.program_exit_us.map_or(String::new(), |us| format!(", {}", time(us)));
    let nodes = report.nodes.len() + report.missing_ranks.len();
    format!("{}: {nodes} nodes, via {}, exit status {}{took}", run.command.join(" "), run.via, run.exit_status)
}

/// Returns what the reader of the report has to know about its numbers.
pub(super) fn remarks(report: &JobReport) -> Vec<String> {
    let mut remarks = Vec::new();
    if !report.missing_ranks.is_empty() {
        let ranks: Vec<String> = report.missing_ranks.iter().take(16).map(u32::to_string).collect();
        let more = if report.missing_ranks.len() > 16 { ", …" } else { "" };
        remarks.push(format!(
            "Records are missing of nodes whose daemons ended without them ({}): ranks {}{more}.",
            report.missing_ranks.len(),
            ranks.join(", ")
        ));
    }
    let successors: Vec<String> =
        report.nodes.iter().filter(|node| node.is_successor).map(|node| node.rank.to_string()).collect();
    if !successors.is_empty() {
        remarks.push(format!("On ranks {} a daemon died; what it did before is missing.", successors.join(", ")));
    }
    let worst = report.nodes.iter().filter_map(|node| node.clock_error_us).max();
    remarks.push(match (worst, report.nodes.iter().any(|node| node.clock_error_us.is_none())) {
        (_, true) => "Of some nodes it is not known how far their clocks are from this machine's: their moments may be wrong by any time. Lengths of time are right.".into(),
        (None | Some(0), false) => "All moments are of one clock.".into(),
        (Some(us), false) => format!(
            "Moments of different nodes may be wrong by {} against each other. Lengths of time are of one clock each.",
            time(us)
        ),
    });
    remarks.push(
        "Answers that processes found in the shared table or in the kernel's caches are no requests, and are not counted."
            .into(),
    );
    let left_out = [
        (report.paths_left_out, "paths"),
        (report.events_left_out, "events"),
        (report.cells_left_out, "pairs of a path and a node"),
    ];
    for (number, what) in left_out.into_iter().filter(|(number, _)| *number > 0) {
        remarks.push(format!("There was no room for {} {what}.", grouped(number)));
    }
    remarks
}

/// Returns the legs with their names, from the process to the shared file system.
pub(super) fn leg_rows(legs: &Legs) -> [(&'static str, u64); 6] {
    [
        ("the node's own daemon", legs.node_us),
        ("links between nodes", legs.links_us),
        ("daemons of parents", legs.parents_us),
        ("caches of nodes", legs.cache_us),
        ("the shared file system", legs.shared_fs_us),
        ("behind nodes without records", legs.unknown_us),
    ]
}

const NODE_HEADINGS: [&str; 12] = [
    "rank",
    "node",
    "requests",
    "waited",
    "own",
    "links",
    "parents",
    "shared fs",
    "files read",
    "bytes read",
    "fallbacks",
    "clock ±",
];

fn node_row(node: &NodeReport) -> [String; 12] {
    [
        node.rank.to_string(),
        node.name.clone(),
        grouped(node.processes.requests),
        time(node.legs.wait_us),
        time(node.legs.node_us),
        time(node.legs.links_us),
        time(node.legs.parents_us),
        time(node.legs.shared_fs_us),
        grouped(node.shared_fs.files),
        bytes(node.shared_fs.bytes),
        grouped(node.processes.fallbacks),
        node.clock_error_us.map_or("?".into(), time),
    ]
}

const LINK_HEADINGS: [&str; 8] =
    ["child", "parent", "requests", "waited", "at the parent", "messages down", "bytes down", "messages up"];

fn link_row(link: &LinkReport) -> [String; 8] {
    [
        link.child.to_string(),
        link.parent.to_string(),
        grouped(link.requests),
        time(link.wait_us),
        time(link.parent_us),
        grouped(link.down.messages),
        bytes(link.down.bytes),
        grouped(link.up.messages),
    ]
}

const PATH_HEADINGS: [&str; 12] = [
    "path",
    "kind",
    "first asked",
    "last arrived",
    "waited",
    "longest",
    "requests",
    "absent",
    "of children",
    "reads",
    "bytes read",
    "nodes",
];

fn path_row(path: &PathReport) -> [String; 12] {
    let moment = |at_us: Option<i64>| at_us.map_or("-".into(), |us| time(us.max(0) as u64));
    [
        path.path.clone(),
        kind(path.kind).into(),
        moment(path.asked.map(|span| span.first_us)),
        moment(path.arrived.map(|span| span.last_us)),
        time(path.wait_us),
        time(path.wait_us_max),
        grouped(path.requests),
        grouped(path.absent),
        grouped(path.child_requests),
        grouped(path.reads),
        bytes(path.shared_fs_bytes),
        grouped(path.nodes.known.into()),
    ]
}

const EVENT_HEADINGS: [&str; 5] = ["event", "at", "rank", "other rank", "path"];

fn event_row(event: &Event) -> [String; 5] {
    [
        event_name(event.kind).into(),
        time(event.at_us.max(0) as u64),
        event.rank.to_string(),
        event.peer.map_or(String::new(), |rank| rank.to_string()),
        event.path.clone().unwrap_or_default(),
    ]
}

/// Returns what happened, in words.
pub fn event_name(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Evicted => "evicted",
        EventKind::Fallback => "source file used",
        EventKind::StoreFull => "no room in the store",
        EventKind::Unavailable => "not to be had from a parent",
        EventKind::Damaged => "damaged content",
        EventKind::Changed => "source file changed",
        EventKind::Passthrough => "changed by the job",
        EventKind::LinkUp => "link up",
        EventKind::LinkDown => "link down",
    }
}

/// Returns a kind's name.
pub(super) fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Unknown => "",
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Link => "link",
        Kind::Other => "other",
    }
}

/// Returns a source's name.
pub(super) fn source(source: Source) -> &'static str {
    match source {
        Source::None => "nowhere",
        Source::SharedFs => "the shared file system",
        Source::Cache => "the node's cache",
        Source::Parent => "a parent",
    }
}

/// Formats microseconds.
pub(super) fn time(us: u64) -> String {
    nanoseconds(us * 1000)
}

fn percent(part: u64, all: u64) -> String {
    if all == 0 { String::new() } else { format!("{:.0} %", part as f64 / all as f64 * 100.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Run;

    #[test]
    fn people_can_read_it() {
        let path = PathReport { path: "/sw/x".into(), wait_us: 1500, requests: 2, ..PathReport::default() };
        let report = JobReport {
            run: Run { command: vec!["python3".into(), "x.py".into()], via: "audit".into(), ..Run::default() },
            nodes: vec![NodeReport { rank: 0, is_successor: true, clock_error_us: Some(250), ..NodeReport::default() }],
            missing_ranks: vec![1],
            legs: Legs { wait_us: 1500, node_us: 500, shared_fs_us: 1000, ..Legs::default() },
            paths: vec![path; 60],
            paths_left_out: 1234,
            ..JobReport::default()
        };
        let text = text(&report);
        for expected in [
            "python3 x.py: 2 nodes, via audit, exit status 0\n",
            "Records are missing of nodes whose daemons ended without them (1): ranks 1.",
            "On ranks 0 a daemon died",
            "wrong by 250µs",
            "There was no room for 1,234 paths.",
            "the shared file system ",
            "1.0ms    67 %",
            "paths, by wait: 50 of 60",
            "/sw/x",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert_eq!(text.matches("/sw/x").count(), 50);
    }
}
