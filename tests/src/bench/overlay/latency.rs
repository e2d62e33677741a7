//! A small object to all nodes.

use headwater_cluster::Node;
use headwater_topology::{Forest, Rank, Shape, TreeId};

use super::{BINARY_TREE, cluster, everywhere, fixture, links, noise, shown};
use crate::bench::statistics::Sample;
use crate::bench::{Report, Table};
use crate::harness::nodes::{Nodes, Plan};

const NODES: usize = 64;
const OBJECTS: usize = 101;
const OBJECT_BYTES: usize = 1024;
/// Round trips of each pair of nodes.
const TRIPS: usize = 100;

pub(in crate::bench) fn run(report: &mut Report) {
    report.heading(&format!("The overlay: a small object to {NODES} nodes"));
    let Some(cluster) = cluster(report, NODES, None) else { return };
    let fixture = fixture("latency");
    let objects: Vec<_> = (0..=OBJECTS)
        .map(|number| fixture.file(&format!("object{number}"), noise(OBJECT_BYTES, number as u64), 0o644))
        .collect();
    let ms = |seconds: Vec<f64>| Sample::new(seconds.into_iter().map(|s| s * 1e3).collect());
    let alone = ms(links::round_trips(&[(cluster.on(1), cluster.on(2))], TRIPS * 10, OBJECT_BYTES));
    let mut table = Table::new([
        "ms",
        "depth",
        "object everywhere (10 to 90 %)",
        "round trip, loaded (10 to 90 %)",
        "depth × round trip",
        "ratio",
        "target",
    ]);
    for (name, shape) in [("striped", Shape::default_of(NODES as u32)), ("binary tree", BINARY_TREE)] {
        let plan = Plan::of(&[&fixture.shared()]).shape(shape).policy("push");
        let forest = plan.forest(NODES);
        let edges = edges(&forest, &|rank| cluster.on(rank as usize + 1));
        let before = links::round_trips(&edges, TRIPS, OBJECT_BYTES);
        let nodes = Nodes::start(&cluster, &plan);
        let mut askers = nodes.askers();
        let mut times: Vec<f64> = objects.iter().map(|object| everywhere(&nodes, &mut askers, object)).collect();
        drop(askers);
        // With the first came the directory's listing.
        times.remove(0);
        nodes.stop();
        let after = links::round_trips(&edges, TRIPS, OBJECT_BYTES);
        let (times, loaded) = (ms(times), ms([before, after].concat()));
        let bound = f64::from(forest.depth_max()) * loaded.median();
        table.row([
            name.into(),
            forest.depth_max().to_string(),
            shown(&times, 2),
            shown(&loaded, 2),
            format!("{bound:.2}"),
            format!("{:.2}", times.median() / bound),
            "≤ 1.5".into(),
        ]);
    }
    report.line(format!(
        "All nodes ask for a file of {OBJECT_BYTES} bytes at once, {OBJECTS} files one after the other in one session; \
         the time is until the last node has it. The round trip is that of as many bytes by plain TCP between all \
         children and their parents in one tree at once, each end a thread, {TRIPS} times before and {TRIPS} times after; \
         with nobody else at it, between two nodes, it takes {} ms. All of it shares the processors of one machine.\n",
        shown(&alone, 3)
    ));
    report.table(&table);
}

/// Each node of the first tree with its parent.
fn edges<'a>(forest: &Forest, node: &dyn Fn(u32) -> &'a Node) -> Vec<(&'a Node, &'a Node)> {
    let parent = |rank: u32| forest.parent(TreeId(0), Rank(rank)).map(|parent| (node(rank), node(parent.0)));
    (0..forest.ranks()).filter_map(parent).collect()
}
