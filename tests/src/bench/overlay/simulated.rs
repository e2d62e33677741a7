//! The simulator beside real daemons: the same files, links and shared file system.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use headwater_cluster::{Cluster, Options};
use serde_json::Value;

use super::setup::{fixture, noise, shown};
use crate::bench::statistics::Sample;
use crate::bench::{Report, Table};
use crate::counting_fs::{Caching, Mounted};
use crate::harness::nodes::{Nodes, Plan, project};
use crate::harness::{Fixture, headwater_binary};

const NODES: [usize; 3] = [4, 16, 64];
const ROUNDS: usize = 3;
/// Files of a start: how many, in how many directories, and bytes of each.
const SMALL: (usize, usize, usize) = (300, 10, 9000);
const LARGE: (usize, usize, usize) = (8, 1, 1 << 20);
const RATE: &str = "50mbit";
/// The shared file system's operations in a second, of whatever kind.
const OPERATIONS_PER_SECOND: u64 = 1000;
/// What the machine does with this, estimated from profiles of `overlay-files` and `overlay-broadcast`: processor
/// time of daemons and of the kernel's network, which all nodes share here.
const NETWORK: &str = "
rate_gbit = 0.05
latency_us = 60
[node]
one_machine = true
cores = 2
lookup_us = 10
[daemon]
receive_us = 25
send_us = 17
publish_us = 40
request_us = 95
receive_us_per_mb = 4500
send_us_per_mb = 2500
socket_bytes = 262144
";

pub(in crate::bench) fn run(report: &mut Report) {
    report.heading("The simulator beside real daemons");
    let fixture = fixture("simulated");
    let (small, large) = (fill(&fixture, "small", SMALL), fill(&fixture, "large", LARGE));
    let mut mounted = match Mounted::new(&fixture.shared(), 1, Caching::NONE) {
        Ok(mounted) => mounted,
        Err(reason) => return report.line(format!("skipped: {reason}")),
    };
    mounted.set_rate(OPERATIONS_PER_SECOND);
    let mut table = Table::new(["nodes", "measured, s (10 to 90 %)", "simulated, s", "ratio", "target"]);
    let mut operations = None;
    for count in NODES {
        let shares = vec![mounted.scratch().to_path_buf(), project().to_path_buf()];
        let rate = Some(RATE.parse().expect("a rate"));
        let cluster = match Cluster::up(count, &Options { ram_disk_mib: 256, rate, shares, ..Options::default() }) {
            Ok(cluster) => cluster,
            Err(reason) => return report.line(format!("skipped: {reason}")),
        };
        let paths = || small.iter().chain(&large);
        let list: String = paths().map(|(name, _)| format!("{}\n", mounted.path().join(name).display())).collect();
        let list_file = fixture.outside("list");
        std::fs::write(&list_file, list).expect("an own directory");
        let seconds: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                mounted.reset();
                start(&cluster, mounted.path(), &list_file)
            })
            .collect();
        let counted = operations.get_or_insert_with(|| mounted.counts()["operations"].as_f64().unwrap_or(f64::NAN));
        let trace: String = paths().fold(String::new(), |mut text, (name, bytes)| {
            let _ = writeln!(text, "0 open {bytes} {}", mounted.path().join(name).display());
            text
        });
        let simulated = match simulate(&fixture, count, &trace, *counted / (SMALL.0 + LARGE.0) as f64) {
            Ok(seconds) => seconds,
            Err(reason) => return report.line(format!("failed: {reason}")),
        };
        let measured = Sample::new(seconds);
        eprintln!("{count} nodes: measured {:.2}, simulated {simulated:.2} s", measured.median());
        table.row([
            count.to_string(),
            shown(&measured, 2),
            format!("{simulated:.2}"),
            format!("{:.2}", simulated / measured.median()),
            "0.75 to 1.25".into(),
        ]);
    }
    report.line(format!(
        "On each node one process requests {} files of {} bytes in {} directories and then for {} of {} MiB, one \
         after the other. Links of {RATE}; the shared file system does {OPERATIONS_PER_SECOND} operations a second, \
         {:.0} in all, as it counted on {} nodes; that is what an open costs in the simulation. Processor time is \
         estimated from profiles, and the same for all sizes:\n\n```toml{NETWORK}```\n",
        SMALL.0,
        SMALL.2,
        SMALL.1,
        LARGE.0,
        LARGE.2 >> 20,
        operations.unwrap_or(0.0),
        NODES[0],
    ));
    report.table(&table);
}

/// Makes files, in directories; their names and sizes.
fn fill(fixture: &Fixture, kind: &str, (files, directories, bytes): (usize, usize, usize)) -> Vec<(String, usize)> {
    let make = |number| {
        let name = format!("{kind}/{}/file{number}", number % directories);
        fixture.file(&name, noise(bytes, number as u64), 0o644);
        (name, bytes)
    };
    (0..files).map(make).collect()
}

/// Seconds until the processes on all nodes have all files.
fn start(cluster: &Cluster, scope: &Path, list: &Path) -> f64 {
    let nodes = Nodes::start(cluster, &Plan::of(&[scope]));
    let mut askers = nodes.askers();
    let started = Instant::now();
    askers.iter_mut().for_each(|asker| asker.ask_all(1, list));
    nodes.await_requested(&mut askers);
    let seconds = started.elapsed().as_secs_f64();
    drop(askers);
    nodes.stop();
    seconds
}

/// The command's prediction for the same; an open costs the file system so many operations.
fn simulate(fixture: &Fixture, nodes: usize, trace: &str, operations: f64) -> Result<f64, String> {
    let operation_us = 1e6 / OPERATIONS_PER_SECOND as f64;
    let file_system =
        format!("latency_us = 100\nstat_us = 0\nlist_us = {operation_us}\nopen_us = {}\n", operations * operation_us);
    let file = |name: &str, text: &str| {
        let path = fixture.outside(name);
        std::fs::write(&path, text).expect("an own directory");
        path
    };
    let mut command = Command::new(headwater_binary());
    command.args(["simulate", "--json", "--exact", "--nodes", &nodes.to_string()]);
    command.arg("--network").arg(file("network.toml", NETWORK)).arg("--fs").arg(file("fs.toml", &file_system));
    command.arg("--trace").arg(file("files.trace", trace));
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    let printed: Value = serde_json::from_slice(&output.stdout)
        .map_err(|e| format!("{command:?}: {e}: {}", String::from_utf8_lossy(&output.stderr)))?;
    printed["runs"][0]["seconds"].as_f64().ok_or_else(|| format!("{command:?} prints no time"))
}
