//! A large file to nodes with two interfaces: over one of them, and over both.

use std::path::Path;

use headwater_cluster::{Cluster, Options, Rate};

use super::links;
use super::reserve::Reserve;
use super::setup::{cluster_with, everywhere, fixture, noise};
use crate::bench::statistics::Sample;
use crate::bench::{Report, Table};
use crate::harness::nodes::{Nodes, Plan};

const NODES: usize = 4;
const INTERFACES: usize = 2;
const BYTES: usize = 256 << 20;
/// What each interface's link carries.
const RATES: [&str; 3] = ["200mbit", "400mbit", "1gbit"];
const ROUNDS: usize = 3;

pub(in crate::bench) fn run(report: &mut Report) {
    report.heading("The overlay: one large file to nodes with two interfaces");
    let mut table = Table::new([
        "link of an interface",
        "interfaces",
        "limit, MB/s",
        "machine's limit, MB/s",
        "measured, MB/s",
        "10 to 90 %",
        "to the limit",
        "to one interface",
    ]);
    let reserve = Reserve::of((NODES * BYTES) as u64);
    if let Err(error) = &reserve {
        report.line(format!("no memory at hand: {error}"));
    }
    for rate in RATES {
        let rate: Rate = rate.parse().expect("a rate");
        let options = Options { rate: Some(rate), interfaces: INTERFACES, ..Options::default() };
        let Some(cluster) = cluster_with(report, NODES, options) else { return };
        compare(&cluster, rate, &mut table);
    }
    report.line(format!(
        "{NODES} nodes request a file of {} MiB at once; the time is until the last has it, in a new session each time, \
         {ROUNDS} times in turn with one and with both interfaces. Every node's copy is compared with the source file \
         afterwards. The limit is that of the links of one node. The machine's limit: plain TCP from each node to the \
         next at once over as many links, without encryption, digests or trees, written to the RAM disks.\n",
        BYTES >> 20
    ));
    report.table(&table);
}

/// Measures with one and with both interfaces, in turn.
fn compare(cluster: &Cluster, rate: Rate, table: &mut Table) {
    let fixture = fixture("interfaces");
    let file = fixture.file("large", noise(BYTES, 7), 0o644);
    let megabytes = BYTES as f64 / 1e6;
    let (mut plain, mut measured) = ([const { Vec::new() }; INTERFACES], [const { Vec::new() }; INTERFACES]);
    for _ in 0..ROUNDS {
        for number in 0..INTERFACES {
            plain[number].push(megabytes / plain_transfers(cluster, number + 1));
            measured[number].push(megabytes / session(cluster, &fixture.shared(), &file, number + 1));
        }
        eprintln!("{rate}: plain {plain:.0?}, sessions {measured:.0?} MB/s");
    }
    let (plain, measured) = (plain.map(Sample::new), measured.map(Sample::new));
    for (number, (plain, measured_here)) in plain.iter().zip(&measured).enumerate() {
        let limit = (number + 1) as f64 * rate.bytes_per_second() as f64 / 1e6;
        table.row([
            rate.to_string(),
            (number + 1).to_string(),
            format!("{limit:.0}"),
            format!("{:.0}", plain.median()),
            format!("{:.0}", measured_here.median()),
            measured_here.spread(),
            format!("{:.2}", measured_here.median() / limit),
            format!("{:.2}", measured_here.median() / measured[0].median()),
        ]);
    }
}

/// Seconds of plain transfers of the file's bytes from each node to the next, divided among so many interfaces.
fn plain_transfers(cluster: &Cluster, interfaces: usize) -> f64 {
    let next = |node: usize| cluster.on(node % NODES + 1);
    let pairs: Vec<_> = (1..=NODES).map(|node| (cluster.on(node), next(node))).collect();
    links::retained_transfers_over(&pairs, interfaces, BYTES as u64)
}

/// Seconds that a new session takes for the file.
fn session(cluster: &Cluster, scope: &Path, file: &Path, interfaces: usize) -> f64 {
    let nodes = Nodes::start(cluster, &Plan::of(&[scope]).interfaces(interfaces));
    let seconds = everywhere(&nodes, &mut nodes.askers(), file);
    nodes.stop();
    seconds
}
