//! Nodes with two interfaces, each with a link of its own: both carry the files, and a session goes on when one fails.

use std::path::Path;
use std::time::Duration;

use headwater_cluster::{Cluster, Options, Rate};
use headwater_tests::harness::nodes::{self, Nodes, Plan};
use headwater_tests::harness::{Fixture, skipped, wait_until};
use serde_json::Value;

const NODES: usize = 4;
const INTERFACES: usize = 2;
const BYTES: u64 = 24 << 20;
/// How long it takes at most until a link does without an interface: until its connection there has failed, and is not
/// made again. The file may be complete before, because a node that finds no live parent reads it.
const LEFT_OUT_MAX: Duration = Duration::from_secs(8);
/// How long a part of the file may take.
const PROGRESS_MAX: Duration = Duration::from_secs(60);

/// Requests a file on all nodes of a cluster, does `harm` on the way, and checks all copies. Returns the reports, of
/// `settling` later.
fn check(
    (rate, settling): (Option<&str>, Duration),
    harm: impl FnOnce(&mut Nodes),
) -> Option<(Cluster, Vec<Option<Value>>)> {
    let fixture = Fixture::new("interfaces");
    let content: Vec<u8> = (0..BYTES as u32 / 4).flat_map(|n| n.wrapping_mul(0x9e37_79b1).to_le_bytes()).collect();
    let file = fixture.file("large", &content, 0o644);
    let rate = rate.map(|rate| rate.parse::<Rate>().unwrap());
    let shares = vec![fixture.shared(), nodes::project().to_path_buf()];
    let cluster = match Cluster::up(NODES, &Options { rate, interfaces: INTERFACES, shares, ..Options::default() }) {
        Ok(cluster) => cluster,
        Err(reason) if headwater_cluster::check().is_err() => {
            skipped(reason);
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let mut nodes = Nodes::start(&cluster, &Plan::of(&[&fixture.shared()]).interfaces(INTERFACES));
    let mut askers = nodes.askers();
    askers.iter_mut().for_each(|asker| asker.request(&file));
    harm(&mut nodes);
    nodes.await_requested(&mut askers);
    (0..NODES).for_each(|rank| assert_same(&nodes.copy(rank, &file), &content, rank));
    drop(askers);
    std::thread::sleep(settling);
    let reports = nodes.stop();
    Some((cluster, reports))
}

fn assert_same(copy: &Path, content: &[u8], rank: usize) {
    let copy = std::fs::read(copy).unwrap_or_else(|e| panic!("rank {rank}: {e}"));
    assert!(copy == content, "rank {rank} has other bytes");
}

/// Waits until a rank has received an eighth of the file over one of its interfaces.
fn await_progress(nodes: &Nodes, rank: usize, interface: usize) {
    let has_some = || nodes.node(rank).traffic_on(interface).unwrap().0 > BYTES / 8;
    assert!(wait_until(PROGRESS_MAX, has_some), "rank {rank} receives nothing over interface {interface}");
}

#[test]
fn both_interfaces_of_each_node_carry_files() {
    let Some((cluster, reports)) = check((None, Duration::ZERO), |_| ()) else { return };
    for node in cluster.nodes() {
        let carried = [0, 1].map(|interface| node.traffic_on(interface).unwrap());
        let [first, second] = carried.map(|(received, sent)| received + sent);
        assert!(first.min(second) > BYTES / 4, "{}: {carried:?}", node.name);
        assert!(first.max(second) < 3 * first.min(second), "{}: {carried:?}", node.name);
    }
    assert_eq!(Nodes::sum(&reports, "shared_fs.bytes_read"), BYTES);
    assert!(reports.iter().flatten().all(|report| report["interface_failure"].is_null()), "{reports:?}");
}

/// Fails one of the interfaces of a node that forwards, in the midst of the file.
fn check_loss(fail: impl FnOnce(&mut Nodes, usize)) {
    let lost = |nodes: &mut Nodes| {
        let rank = nodes.interior();
        await_progress(nodes, rank, 1);
        fail(nodes, rank);
    };
    let Some((_cluster, reports)) = check((Some("100mbit"), LEFT_OUT_MAX), lost) else { return };
    let failures: Vec<&str> =
        reports.iter().flatten().filter_map(|report| report["interface_failure"].as_str()).collect();
    assert!(!failures.is_empty(), "no node reports the interface");
    for failure in failures {
        assert!(failure.starts_with("node00") && failure.contains("interface eth1 ("), "{failure}");
    }
}

#[test]
fn an_interface_goes_down() {
    check_loss(|nodes, rank| {
        let status = nodes.node(rank).command("ip").args(["link", "set", "eth1", "down"]).status();
        assert!(status.expect("ip is installed").success());
    });
}

#[test]
fn a_cable_is_pulled() {
    check_loss(|nodes, rank| nodes.unplug(rank, 1));
}
