//! From "start" to all daemons ready.

use std::process::Stdio;
use std::time::Instant;

use headwater_cluster::Cluster;

use super::setup::{cluster, fixture, shown};
use crate::bench::statistics::Sample;
use crate::bench::{Report, Table};
use crate::harness::nodes::{Nodes, Plan};

const NODES: [usize; 3] = [4, 16, 64];
const ROUNDS: usize = 11;

pub(in crate::bench) fn run(report: &mut Report) {
    report.heading("The overlay: until all daemons are ready");
    let fixture = fixture("start");
    let mut table = Table::new(["nodes", "all ready, s (10 to 90 %)", "target", "`sh` by nsenter on each node, s"]);
    for count in NODES {
        let Some(cluster) = cluster(report, count, None) else { return };
        let (mut ready, mut launched) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            launched.push(launch(&cluster));
            let started = Instant::now();
            let nodes = Nodes::start(&cluster, &Plan::of(&[&fixture.shared()]));
            ready.push(started.elapsed().as_secs_f64());
            nodes.stop();
        }
        let [ready, launched] = [ready, launched].map(Sample::new);
        let target = if count == 64 { "0.5" } else { "" };
        table.row([count.to_string(), shown(&ready, 3), target.into(), shown(&launched, 3)]);
    }
    report.line(format!(
        "A session's daemons are started on all nodes, one after the other, without waiting; the time is until the last \
         of them is ready: linked with its peers. Medians of {ROUNDS}. Beside it is what entering each node's \
         namespaces and starting a shell there by `nsenter` takes.\n"
    ));
    report.table(&table);
}

/// Seconds that it takes to run nothing on all nodes, as daemons are run.
fn launch(cluster: &Cluster) -> f64 {
    let started = Instant::now();
    let start = |node: &headwater_cluster::Node| {
        node.command("sh").args(["-c", ":"]).stdin(Stdio::null()).spawn().expect("nsenter is part of util-linux")
    };
    let running: Vec<_> = cluster.nodes().iter().map(start).collect();
    for mut child in running {
        assert!(child.wait().is_ok_and(|status| status.success()), "sh runs");
    }
    started.elapsed().as_secs_f64()
}
