//! Writes the page of a generated start on standard output, to try it in a browser: `job [NODES [FILES]]`, of 256 nodes
//! with 20,000 files by default.

use headwater_report::job::{Cause, Clock, Kind, LinkPart, Merger, NodePart, PathRow, Relation, Run, Snapshot, Source};
use headwater_report::job::{Traffic, Waits, page};

const NODES: u32 = 256;
const FILES: u64 = 20_000;

fn main() {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse().expect("a number is given"));
    let (nodes, files) = (numbers.next().map_or(NODES, |nodes: u64| nodes as u32), numbers.next().unwrap_or(FILES));
    let mut merger = Merger::new(0);
    for rank in 0..nodes {
        merger.add(part(rank, nodes, files), Clock::same());
    }
    let run = Run {
        release: "0.1.0".into(),
        command: vec!["python3".into(), "train.py".into()],
        via: "audit".into(),
        daemons_ready_us: Some(350_000),
        program_exit_us: Some(9_000_000),
        ..Run::default()
    };
    print!("{}", page(&merger.finish(run, nodes + 1)).html());
}

fn part(rank: u32, nodes: u32, files: u64) -> NodePart {
    let parent = rank.saturating_sub(1) / 8;
    let hops = u64::from(rank > 0) + u64::from(rank > 8) + u64::from(rank > 72);
    let row = |file: u64| {
        let asked_us = 400_000 + file * 400 + u64::from(rank) * 37 % 5_000;
        let wait_us = 300 + file * 7919 % 1_500 + hops * 200;
        PathRow {
            hash: file,
            kind: Kind::File,
            source: if rank == 0 { Source::SharedFs } else { Source::Parent },
            source_rank: parent,
            cause: Cause::Process,
            requests: 2,
            wait_us: wait_us * 2,
            wait_us_max: wait_us,
            asked_us,
            fetched_us: asked_us + 40,
            arrived_us: asked_us + wait_us,
            fetch_us: wait_us - 40,
            reads: u64::from(rank == 0),
            read_us: if rank == 0 { 250 } else { 0 },
            parent_bytes: if rank > 0 { file * 7919 % 100_003 } else { 0 },
            stored_bytes: file * 7919 % 100_003,
            ..PathRow::default()
        }
    };
    let waits = |wait_us: u64| Waits {
        requests: files * 2,
        wait_us,
        node_us: wait_us / 10,
        shared_fs_us: if rank == 0 { wait_us * 9 / 10 } else { 0 },
        parents_us: if rank == 0 { Vec::new() } else { vec![(parent, wait_us * 9 / 10)] },
        ..Waits::default()
    };
    let link = |rank, relation, us| {
        let traffic = Traffic { messages: files, bytes: 1 << 30 };
        LinkPart { rank, relation, sent: traffic, received: traffic, waits: waits(us) }
    };
    let children = (rank * 8 + 1..=rank * 8 + 8).filter(|&child| child < nodes);
    let up = (rank > 0).then(|| link(parent, Relation::Parent, 20_000_000)).into_iter();
    let snapshot = |number: u64| Snapshot { at_us: number * 100_000, answered: number * 600, ..Snapshot::default() };
    let name = |file: u64| format!("/sw/env/lib/python3.11/site-packages/package{}/module{file}.py", file / 100);
    NodePart {
        rank,
        name: format!("node{rank:03}"),
        processes: waits(20_000_000),
        paths: (0..files).map(row).collect(),
        names: (0..files).filter(|_| rank == 0).map(|file| (file, name(file))).collect(),
        links: children.map(|child| link(child, Relation::Child, 18_000_000)).chain(up).collect(),
        snapshots: (1..64).map(snapshot).collect(),
        ..NodePart::default()
    }
}
