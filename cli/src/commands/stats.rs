//! `headwater stats`: shows statistics of daemons.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, stdout};
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use headwater_daemon::stats::{Bytes, Latency, NodeStats, OperationStats, PeerStats};
use headwater_figures::text::{bytes, columns, milliseconds, nanoseconds};
use serde::Serialize;

use crate::control::find::{Node, find, living};
use crate::control::options::StatsOptions;
use crate::control::stats::{of_node, peer_name};
use crate::message::{log, show};

/// Moves a terminal's cursor to the corner and clears what is below.
const HOME: &str = "\x1b[H\x1b[J";

/// Links that are shown as text.
const LINKS_SHOWN_MAX: usize = 32;

/// The nodes of one session, as JSON shows them.
#[derive(Serialize)]
struct Shown<'a> {
    session: &'a str,
    nodes: &'a BTreeMap<u32, NodeStats>,
}

/// Prints the statistics, once or until it is interrupted; returns the exit status.
pub fn stats(options: &StatsOptions) -> Result<u8> {
    loop {
        let (session, nodes) = selected(options)?;
        let mut stats = BTreeMap::new();
        let mut last = None;
        for node in &nodes {
            match of_node(node) {
                Ok(of_node) => drop(stats.insert(node.number, of_node)),
                Err(error) => {
                    log(format_args!("node {}: {error:#}", node.number));
                    last = Some(error);
                }
            }
        }
        if let Some(error) = last.filter(|_| stats.is_empty()) {
            return Err(error.context(format!("no daemon of session {session} answers")));
        }
        let text = if options.json {
            serde_json::to_string(&Shown { session: &session, nodes: &stats })? + "\n"
        } else {
            table(&session, &stats)
        };
        match options.watch {
            None => {
                show(stdout(), text);
                return Ok(u8::from(stats.len() < nodes.len()));
            }
            Some(_) if stdout().is_terminal() && !options.json => show(stdout(), format_args!("{HOME}{text}")),
            Some(_) if options.json => show(stdout(), text),
            Some(_) => show(stdout(), format_args!("{text}\n")),
        }
        thread::sleep(Duration::from_secs(options.watch.map_or(1, u64::from)));
    }
}

fn selected(options: &StatsOptions) -> Result<(String, Vec<Node>)> {
    let Some(mount_point) = &options.mount_point else {
        let session = find(&options.nodes)?;
        return Ok((session.name, session.nodes));
    };
    let mount_point =
        mount_point.canonicalize().with_context(|| format!("{} can't be examined", mount_point.display()))?;
    for session in living(options.nodes.store.as_deref()) {
        for node in session.nodes {
            if of_node(&node).is_ok_and(|stats| is_mounted_at(&stats, &mount_point)) {
                return Ok((session.name, vec![node]));
            }
        }
    }
    bail!(
        "no session of this user has a mount at {}; `headwater stats` without it shows the sessions",
        mount_point.display()
    )
}

fn is_mounted_at(stats: &NodeStats, mount_point: &Path) -> bool {
    stats.mount.as_ref().is_some_and(|mount| mount.mount_point.to_path() == mount_point)
}

fn table(session: &str, nodes: &BTreeMap<u32, NodeStats>) -> String {
    let ranks = nodes.values().next().map_or(0, |stats| stats.ranks);
    let mut text = format!("session {session}: {} of {ranks} nodes\n\n", nodes.len());
    text += &columns(&holdings(nodes), 1);
    text += "\nANSWERED BY: the node's table and store; its parent; its reader; source files\n";
    text += &columns(&hits(nodes), 1);
    text += &links(nodes);
    let operations = operations(nodes);
    if !operations.is_empty() {
        text += "\nTIMES: of the slowest node\n";
        text += &columns(&operation_rows(&operations), 1);
    }
    for (number, stats) in nodes {
        if stats.bytes.sent_by_fabric > 0 {
            let _ = writeln!(text, "\nnode {number}: {} of SENT over libfabric", bytes(stats.bytes.sent_by_fabric));
        }
        if let Some(why) = &stats.tcp_instead {
            let _ = writeln!(text, "\nnode {number}: TCP in place of libfabric: {why}");
        }
        if let Some(why) = &stats.interface_failure {
            let _ = writeln!(text, "\nnode {number}: links do without an interface: {why}");
        }
    }
    for (number, stats) in nodes.iter().filter(|(_, stats)| stats.changed.count > 0) {
        let paths: Vec<String> = stats.changed.paths.iter().map(|path| path.to_path().display().to_string()).collect();
        let _ = writeln!(
            text,
            "\nnode {number}: {} times a changed source file was found and used; `headwater refresh` publishes \
             changes. The last: {}",
            stats.changed.count,
            paths.join(", ")
        );
    }
    text
}

fn row<const N: usize>(cells: [String; N]) -> Vec<String> {
    cells.into()
}

fn heading(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|&cell| cell.to_owned()).collect()
}

fn holdings(nodes: &BTreeMap<u32, NodeStats>) -> Vec<Vec<String>> {
    let names = ["NODE", "NAME", "ROLE", "PID", "UPTIME", "GENERATION", "FILES", "STORE", "OF", "PATHS", "EVICTED"];
    let more = ["TABLE", "RSS"];
    let of = |(number, stats): (&u32, &NodeStats)| {
        row([
            number.to_string(),
            stats.name.clone(),
            stats.role.name().to_owned(),
            stats.pid.to_string(),
            milliseconds(stats.uptime_ms),
            match stats.generations_kept {
                0 => stats.generation.to_string(),
                kept => format!("{} (+{kept})", stats.generation),
            },
            stats.holds.files.to_string(),
            bytes(stats.memory.store),
            room(&stats.bytes),
            stats.holds.entries.to_string(),
            stats.holds.evictions.to_string(),
            bytes(stats.memory.table),
            bytes(stats.memory.daemon_rss),
        ])
    };
    let names: Vec<&str> = names.into_iter().chain(more).collect();
    [heading(&names)].into_iter().chain(nodes.iter().map(of)).collect()
}

/// Returns the store's limit, with the configured one if that is higher.
fn room(of: &Bytes) -> String {
    let max = bytes(of.store_max);
    if of.store_max < of.store_max_configured { format!("{max} (of {})", bytes(of.store_max_configured)) } else { max }
}

fn hits(nodes: &BTreeMap<u32, NodeStats>) -> Vec<Vec<String>> {
    let names = ["NODE", "PROCESSES", "LOOK-UPS", "REQUESTS", "TABLE", "PARENT", "READER", "SOURCE"];
    let more = ["SENT", "RECEIVED", "FROM FS", "FS OPS"];
    let of = |(number, stats): (&u32, &NodeStats)| {
        row([
            number.to_string(),
            stats.clients.processes.to_string(),
            stats.clients.lookups.to_string(),
            stats.hits.upcalls.to_string(),
            stats.hits.table.to_string(),
            stats.hits.parent.to_string(),
            stats.hits.reader.to_string(),
            stats.hits.original.to_string(),
            bytes(stats.bytes.sent),
            bytes(stats.bytes.received),
            bytes(stats.bytes.shared_fs),
            stats.shared_fs.operations.to_string(),
        ])
    };
    let names: Vec<&str> = names.into_iter().chain(more).collect();
    [heading(&names)].into_iter().chain(nodes.iter().map(of)).collect()
}

/// Returns the table of links: those that are down, and as many others as fit.
fn links(nodes: &BTreeMap<u32, NodeStats>) -> String {
    let up: u64 = nodes.values().map(|stats| stats.links.up).sum();
    let down: u64 = nodes.values().map(|stats| stats.links.down).sum();
    if up + down == 0 {
        return String::new();
    }
    let peers = nodes.iter().flat_map(|(number, stats)| stats.links.peers.iter().map(move |peer| (number, peer)));
    let mut peers: Vec<(&u32, &PeerStats)> = peers.collect();
    peers.sort_by_key(|(_, peer)| peer.is_up);
    peers.truncate(LINKS_SHOWN_MAX);
    let hidden = up + down - peers.len() as u64;
    let rows = peers.into_iter().map(|(number, peer)| {
        row([
            number.to_string(),
            peer_name(peer),
            peer.role.name().to_owned(),
            peer.relation.name().to_owned(),
            if peer.is_up { "up" } else { "down" }.to_owned(),
            milliseconds(peer.since_ms),
            peer.address.clone().unwrap_or_default(),
            peer.failure.clone().unwrap_or_default(),
        ])
    });
    let names = ["NODE", "PEER", "ROLE", "IS", "LINK", "SINCE", "ADDRESS", "CAUSE"];
    let rows: Vec<Vec<String>> = [heading(&names)].into_iter().chain(rows).collect();
    let more = if hidden > 0 { format!("and {hidden} more; --json shows them\n") } else { String::new() };
    format!("\nLINKS: {up} up, {down} down\n{}{more}", columns(&rows, 1))
}

/// Sums up the operations of all nodes, with the slowest node's times.
fn operations(nodes: &BTreeMap<u32, NodeStats>) -> Vec<OperationStats> {
    let mut sums = BTreeMap::<&str, OperationStats>::new();
    for operation in nodes.values().flat_map(|stats| &stats.operations) {
        let sum = sums.entry(&operation.name).or_default();
        sum.name.clone_from(&operation.name);
        sum.count += operation.count;
        sum.from_table += operation.from_table;
        sum.asked += operation.asked;
        sum.from_original += operation.from_original;
        sum.errors += operation.errors;
        sum.bytes += operation.bytes;
        sum.latency = slower(sum.latency, operation.latency);
    }
    sums.into_values().collect()
}

fn slower(a: Latency, b: Latency) -> Latency {
    Latency {
        p50_ns: a.p50_ns.max(b.p50_ns),
        p90_ns: a.p90_ns.max(b.p90_ns),
        p99_ns: a.p99_ns.max(b.p99_ns),
        max_ns: a.max_ns.max(b.max_ns),
        ..a
    }
}

fn operation_rows(operations: &[OperationStats]) -> Vec<Vec<String>> {
    let names = ["OPERATION", "COUNT", "TABLE", "FETCHED", "SOURCE", "ERRORS", "BYTES", "P50", "P90", "P99", "MAX"];
    let of = |operation: &OperationStats| {
        row([
            operation.name.clone(),
            operation.count.to_string(),
            operation.from_table.to_string(),
            operation.asked.to_string(),
            operation.from_original.to_string(),
            operation.errors.to_string(),
            bytes(operation.bytes),
            nanoseconds(operation.latency.p50_ns),
            nanoseconds(operation.latency.p90_ns),
            nanoseconds(operation.latency.p99_ns),
            nanoseconds(operation.latency.max_ns),
        ])
    };
    [heading(&names)].into_iter().chain(operations.iter().map(of)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_daemon::stats::LinkStats;

    #[test]
    fn sums_over_nodes_show_the_slowest() {
        let operation = |count, max_ns| OperationStats {
            name: "read".into(),
            count,
            latency: Latency { max_ns, ..Latency::default() },
            ..OperationStats::default()
        };
        let node =
            |count, max_ns| NodeStats { operations: vec![operation(count, max_ns)], ranks: 2, ..NodeStats::default() };
        let nodes = BTreeMap::from([(0, node(3, 2_000_000)), (1, node(4, 5))]);
        let text = table("abcd", &nodes);
        assert!(text.starts_with("session abcd: 2 of 2 nodes\n"), "{text}");
        let line = text.lines().find(|line| line.starts_with("read")).unwrap();
        assert_eq!(
            line.split_whitespace().collect::<Vec<_>>(),
            ["read", "7", "0", "0", "0", "0", "0", "-", "-", "-", "2.0ms"]
        );
        assert!(!text.contains("was found and used") && !text.contains("LINKS"));
    }

    #[test]
    fn links_that_are_down_come_first() {
        let peer = |rank, is_up, failure: Option<&str>| PeerStats {
            rank,
            is_up,
            failure: failure.map(str::to_owned),
            ..PeerStats::default()
        };
        let named = PeerStats { name: Some("io02".into()), ..peer(1, false, Some("no answer from its address")) };
        let peers = (2..60).map(|rank| peer(rank, true, None)).chain([named]).collect();
        let stats =
            NodeStats { links: LinkStats { up: 58, down: 1, peers, ..LinkStats::default() }, ..NodeStats::default() };
        let text = links(&BTreeMap::from([(0, stats)]));
        let lines: Vec<&str> = text.trim().lines().collect();
        assert_eq!(lines[0], "LINKS: 58 up, 1 down");
        assert!(lines[2].contains("io02") && lines[2].ends_with("no answer from its address"), "{text}");
        assert!(lines[3].contains("rank 2 "), "{text}");
        assert_eq!(lines.last().unwrap(), &"and 27 more; --json shows them");
    }
}
