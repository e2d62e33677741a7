//! A small object to all nodes.

use std::path::PathBuf;

use headwater_cluster::{Cluster, Delay, Node, Options};
use headwater_topology::{Forest, Rank, Shape, TreeId};

use super::links;
use super::setup::{BINARY_TREE, cluster_with, everywhere, fixture, noise, shown};
use crate::bench::statistics::Sample;
use crate::bench::{Report, Table};
use crate::harness::nodes::{Nodes, Plan};

const NODES: usize = 64;
const OBJECTS: usize = 101;
const OBJECT_BYTES: usize = 1024;
/// Round trips of each pair of nodes.
const TRIPS: usize = 100;
/// A packet's time from node to node.
const DELAYS: [Option<&str>; 3] = [None, Some("1ms"), Some("5ms")];

pub(in crate::bench) fn run(report: &mut Report) {
    report.heading(&format!("The overlay: a small object to {NODES} nodes"));
    let fixture = fixture("latency");
    let object = |number| fixture.file(&format!("object{number}"), noise(OBJECT_BYTES, number as u64), 0o644);
    let objects: Vec<PathBuf> = (0..=OBJECTS).map(object).collect();
    let mut table = Table::new([
        "links' delay",
        "ms",
        "depth",
        "object everywhere (10 to 90 %)",
        "round trip, loaded (10 to 90 %)",
        "depth × round trip",
        "ratio",
        "target",
    ]);
    let mut alone = Vec::new();
    for delay in DELAYS {
        let parsed = delay.map(|delay| delay.parse::<Delay>().expect("a delay"));
        let Some(cluster) = cluster_with(report, NODES, Options { delay: parsed, ..Options::default() }) else {
            continue;
        };
        let delay = delay.unwrap_or("none");
        let trips = ms(links::round_trips(&[(cluster.on(1), cluster.on(2))], TRIPS * 10, OBJECT_BYTES));
        alone.push(format!("{} ms (delay: {delay})", shown(&trips, 3)));
        for (name, shape) in [("striped", Shape::default_of(NODES as u32)), ("binary tree", BINARY_TREE)] {
            let (depth, times, loaded) =
                measure(&cluster, &Plan::of(&[&fixture.shared()]).shape(shape).policy("push"), &objects);
            let bound = f64::from(depth) * loaded.median();
            table.row([
                delay.into(),
                name.into(),
                depth.to_string(),
                shown(&times, 2),
                shown(&loaded, 2),
                format!("{bound:.2}"),
                format!("{:.2}", times.median() / bound),
                if parsed.is_some() { "≤ 1.5" } else { "" }.into(),
            ]);
        }
    }
    report.line(format!(
        "All nodes request a file of {OBJECT_BYTES} bytes at once, {OBJECTS} files one after the other in one session; \
         the time is until the last node has it. The round trip is that of as many bytes by plain TCP between all \
         children and their parents in one tree at once, each end a thread, {TRIPS} times before and {TRIPS} times after, \
         over the same links; with no other traffic, between two nodes, it takes {}. All of it shares the processors of \
         one machine. Without a delay a round trip is shorter than what {NODES} daemons, {NODES} requesting processes and \
         the harness have to compute for an object on those processors, which sets the time; a target makes sense where \
         the links' delay does.\n",
        alone.join(", ")
    ));
    report.table(&table);
}

/// The depth of the trees, how long each object took, and the round trips at the same load.
fn measure(cluster: &Cluster, plan: &Plan, objects: &[PathBuf]) -> (u32, Sample, Sample) {
    let forest = plan.forest(NODES);
    let edges = edges(&forest, &|rank| cluster.on(rank as usize + 1));
    let before = links::round_trips(&edges, TRIPS, OBJECT_BYTES);
    let nodes = Nodes::start(cluster, plan);
    let mut askers = nodes.askers();
    let mut times: Vec<f64> = objects.iter().map(|object| everywhere(&nodes, &mut askers, object)).collect();
    drop(askers);
    // The directory's listing arrived with the first file.
    times.remove(0);
    nodes.stop();
    let after = links::round_trips(&edges, TRIPS, OBJECT_BYTES);
    (forest.depth_max(), ms(times), ms([before, after].concat()))
}

fn ms(seconds: Vec<f64>) -> Sample {
    Sample::new(seconds.into_iter().map(|s| s * 1e3).collect())
}

/// Each node of the first tree with its parent.
fn edges<'a>(forest: &Forest, node: &dyn Fn(u32) -> &'a Node) -> Vec<(&'a Node, &'a Node)> {
    let parent = |rank: u32| forest.parent(TreeId(0), Rank(rank)).map(|parent| (node(rank), node(parent.0)));
    (0..forest.ranks()).filter_map(parent).collect()
}
