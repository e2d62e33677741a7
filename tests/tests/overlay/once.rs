//! Programs on sixteen nodes: the right result, and each file of the shared file system opened once.

use headwater_tests::harness::nodes::Nodes;
use headwater_topology::{Branching, Shape};
use serde_json::Value;

use crate::site::{NODES, Site, finish, start};

/// Paths that were opened, or read as a directory, more than once.
fn repeated(counts: &Value) -> Vec<String> {
    let paths = counts["paths"].as_object().expect("counts by path");
    let is_repeated = |counts: &Value| ["open", "opendir"].iter().any(|kind| counts[*kind].as_u64().unwrap_or(0) > 1);
    paths.iter().filter(|(_, counts)| is_repeated(counts)).map(|(path, counts)| format!("{path}: {counts}")).collect()
}

fn check(shape: Option<Shape>, policy: &'static str) {
    let Some(site) = Site::new() else { return };
    let expected = site.expected();
    let mut plan = site.plan().policy(policy);
    if let Some(shape) = shape {
        plan = plan.shape(shape);
    }
    let nodes = Nodes::start(&site.cluster, &plan);
    let readers = nodes.readers();
    let running = start(&nodes, 0..NODES, &site.program());
    finish(running, &expected);
    let reports = nodes.stop();
    let counts = site.counts();
    assert_eq!(repeated(&counts), [""; 0], "{shape:?}, {policy}");
    assert_eq!(counts["total"]["failed_lookup"], 0, "absent names were probed");
    assert_eq!(Nodes::sum(&reports, "clients.fallbacks"), 0);
    assert_eq!(Nodes::sum(&reports, "shared_fs.files_read"), counts["total"]["open"].as_u64().unwrap());
    for (rank, report) in reports.iter().enumerate() {
        let report = report.as_ref().expect("every daemon reports");
        let read = report["shared_fs"]["files_read"].as_u64().unwrap();
        assert!(read == 0 || readers.contains(&rank), "rank {rank} read {read} files, and the readers are {readers:?}");
        assert!(report["clients"]["lookups"].as_u64() > Some(0), "Headwater took no part on rank {rank}");
    }
}

#[test]
fn the_default_forest() {
    check(None, "adaptive");
}

#[test]
fn one_binary_tree_with_push() {
    check(Some(Shape::Single(Branching::KAry(2))), "push");
}

#[test]
fn many_readers_with_pull() {
    check(Some(Shape::Striped { trees: 4, readers: 4 }), "pull");
}
