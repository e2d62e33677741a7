//! Nodes that are not there from the beginning to the end, or can't be reached for a while.

use headwater_tests::harness::nodes::Nodes;

use crate::site::{NODES, Site, finish, start};

#[test]
fn a_node_that_joins_late_is_served() {
    let Some(site) = Site::new() else { return };
    let expected = site.expected();
    let late = Nodes::start(&site.cluster, &site.plan().without(&(1..NODES).collect::<Vec<_>>())).interior();
    let mut nodes = Nodes::start(&site.cluster, &site.plan().without(&[late]));
    let running = start(&nodes, (0..NODES).filter(|&rank| rank != late), &site.program());
    site.await_progress(0.3);
    nodes.join(late);
    let on_it = start(&nodes, [late], &site.program());
    finish(running, &expected);
    finish(on_it, &expected);
    let reports = nodes.stop();
    let report = reports[late].as_ref().expect("it was requested to stop");
    assert!(report["clients"]["lookups"].as_u64() > Some(0), "{report}");
    assert_eq!(report["clients"]["fallbacks"], 0, "{report}");
}

#[test]
fn a_daemon_that_returns_is_served_and_serves() {
    let Some(site) = Site::new() else { return };
    let expected = site.expected();
    let mut nodes = Nodes::start(&site.cluster, &site.plan());
    let rank = nodes.interior();
    let running = start(&nodes, 0..NODES, &site.program());
    site.await_progress(0.3);
    nodes.kill_daemon(rank);
    nodes.join(rank);
    finish(running, &expected);
    finish(start(&nodes, [rank], &site.program()), &expected);
    let reports = nodes.stop();
    let report = reports[rank].as_ref().expect("it was requested to stop");
    assert_eq!(report["clients"]["fallbacks"], 0, "the programs that began after its return need no source files");
    assert!(report["clients"]["lookups"].as_u64() > Some(0), "{report}");
}

#[test]
fn a_node_that_is_cut_off_uses_source_files_and_returns() {
    let Some(site) = Site::new() else { return };
    let expected = site.expected();
    let mut nodes = Nodes::start(&site.cluster, &site.plan());
    // One that can't become a reader.
    let rank = NODES - 1;
    let running = start(&nodes, 0..NODES, &site.program());
    site.await_progress(0.3);
    nodes.cut_off(&[rank]);
    finish(running, &expected);
    nodes.reconnect(&[rank]);
    finish(start(&nodes, 0..NODES, &site.program()), &expected);
    nodes.stop();
}

#[test]
fn a_session_in_two_parts_continues_in_both() {
    let Some(site) = Site::new() else { return };
    let expected = site.expected();
    let mut nodes = Nodes::start(&site.cluster, &site.plan());
    let part: Vec<usize> = (NODES / 2..NODES).collect();
    let running = start(&nodes, 0..NODES, &site.program());
    site.await_progress(0.3);
    nodes.cut_off(&part);
    finish(running, &expected);
    nodes.reconnect(&part);
    finish(start(&nodes, 0..NODES, &site.program()), &expected);
    nodes.stop();
}
