//! A large file to all nodes.

use std::path::Path;

use headwater_cluster::{Cluster, Rate};
use headwater_topology::Shape;

use super::links;
use super::reserve::Reserve;
use super::setup::{BINARY_TREE, cluster, everywhere, fixture, noise};
use crate::bench::statistics::Sample;
use crate::bench::{Report, Table};
use crate::harness::nodes::{Nodes, Plan};

/// Nodes, bytes, and what a link carries.
const CASES: [(usize, usize, &str); 3] =
    [(4, 256 << 20, "200mbit"), (16, 256 << 20, "200mbit"), (64, 64 << 20, "50mbit")];
const ROUNDS: usize = 3;

pub(in crate::bench) fn run(report: &mut Report) {
    report.heading("The overlay: one large file to all nodes");
    let mut table = Table::new([
        "nodes, MiB, link",
        "plain TCP over one link, s",
        "over all links at once, s",
        "striped, s",
        "10 to 90 %",
        "binary tree, s",
        "10 to 90 %",
        "striped to link rate",
        "to plain TCP",
        "to all links at once",
        "target",
        "binary to link rate",
    ]);
    let bytes_max = CASES.iter().map(|(nodes, bytes, _)| nodes * bytes).max().unwrap_or(0);
    let reserve = Reserve::of(bytes_max as u64);
    if let Err(error) = &reserve {
        report.line(format!("no memory at hand: {error}"));
    }
    for (nodes, bytes, rate) in CASES {
        let Some(cluster) = cluster(report, nodes, Some(rate)) else { return };
        let fixture = fixture("broadcast");
        let file = fixture.file("large", noise(bytes, nodes as u64), 0o644);
        let least = bytes as f64 / rate.parse::<Rate>().expect("a rate").bytes_per_second() as f64;
        let ring: Vec<_> = (0..nodes).map(|n| (cluster.on(n + 1), cluster.on((n + 1) % nodes + 1))).collect();
        let [mut plain, mut all, mut striped, mut binary] = [const { Vec::new() }; 4];
        for _ in 0..ROUNDS {
            plain.push(links::transfers(&ring[..1], bytes as u64));
            all.push(links::retained_transfers(&ring, bytes as u64));
            striped.push(session(&cluster, &fixture.shared(), &file, Shape::default_of(nodes as u32)));
            binary.push(session(&cluster, &fixture.shared(), &file, BINARY_TREE));
            let last = [&plain, &all, &striped, &binary].map(|times| times.last().copied().unwrap_or_default());
            eprintln!("{nodes} nodes: plain, all plain, striped, binary tree: {last:.2?} s");
        }
        let [plain, all, striped, binary] = [plain, all, striped, binary].map(Sample::new);
        table.row([
            format!("{nodes}, {}, {rate}", bytes >> 20),
            format!("{:.2}", plain.median()),
            format!("{:.2}", all.median()),
            format!("{:.2}", striped.median()),
            striped.spread(),
            format!("{:.2}", binary.median()),
            binary.spread(),
            format!("{:.2}", least / striped.median()),
            format!("{:.2}", plain.median() / striped.median()),
            format!("{:.2}", all.median() / striped.median()),
            "≥ 0.85".into(),
            format!("{:.2}", least / binary.median()),
        ]);
    }
    report.line(format!(
        "All nodes request the file at once; the time is until the last has it, in a new session each time, {ROUNDS} \
         times in turn with one plain transfer over one link, with one from each node to the next at once, written to the RAM disks (what the \
         machine carries), and with the same in one binary tree. Every node's copy \
         is compared with the source file afterwards. The memory for the copies has been touched before. \"To link rate\": the time that the file's bytes take at the \
         link's rate, Ethernet's and TCP's headers not counted, over the time measured.\n"
    ));
    report.table(&table);
}

/// Seconds that a new session takes for it.
fn session(cluster: &Cluster, scope: &Path, file: &Path, shape: Shape) -> f64 {
    let nodes = Nodes::start(cluster, &Plan::of(&[scope]).shape(shape));
    let seconds = everywhere(&nodes, &mut nodes.askers(), file);
    nodes.stop();
    seconds
}
