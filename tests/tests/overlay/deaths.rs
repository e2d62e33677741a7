//! Daemons, nodes and links that fail while programs run on all nodes. Every program ends with the right
//! result, except those on a node that is lost.

use headwater_tests::harness::nodes::Nodes;
use headwater_topology::{Branching, Shape};

use crate::site::{NODES, Site, finish, start};

/// The losses of a failure.
#[derive(Default)]
struct Lost {
    /// The ranks whose programs died with it.
    programs: Vec<usize>,
    /// The ranks whose programs use source files from then on.
    daemons: Vec<usize>,
}

impl Lost {
    fn daemons(ranks: &[usize]) -> Lost {
        Lost { daemons: ranks.to_vec(), ..Lost::default() }
    }
}

/// Does `harm` in the middle of a session with the default forest. Only programs that lost the daemon of their own node
/// notice.
fn check(harm: impl FnOnce(&mut Nodes) -> Lost) {
    check_with(Shape::default_of(NODES as u32), harm);
}

fn check_with(shape: Shape, harm: impl FnOnce(&mut Nodes) -> Lost) {
    let Some(site) = Site::new() else { return };
    let expected = site.expected();
    let mut nodes = Nodes::start(&site.cluster, &site.plan().shape(shape));
    let mut running = start(&nodes, 0..NODES, &site.program());
    site.await_progress(0.3);
    let lost = harm(&mut nodes);
    running.retain(|(rank, _)| !lost.programs.contains(rank));
    finish(running, &expected);
    let reports = nodes.stop();
    for (rank, report) in reports.iter().enumerate().filter(|(rank, _)| !lost.daemons.contains(rank)) {
        let report = report.as_ref().expect("its daemon lives");
        assert_eq!(report["clients"]["fallbacks"], 0, "rank {rank} used source files: {report}");
    }
}

#[test]
fn a_leafs_daemon_is_killed() {
    // In striped trees every rank is interior in some tree.
    check_with(Shape::Single(Branching::KAry(2)), |nodes| {
        let rank = nodes.leaf();
        nodes.kill_daemon(rank);
        Lost::daemons(&[rank])
    });
}

#[test]
fn an_interior_daemon_is_killed() {
    check(|nodes| {
        let rank = nodes.interior();
        nodes.kill_daemon(rank);
        Lost::daemons(&[rank])
    });
}

#[test]
fn a_reader_is_killed() {
    check(|nodes| {
        let rank = nodes.readers()[0];
        nodes.kill_daemon(rank);
        Lost::daemons(&[rank])
    });
}

#[test]
fn all_readers_are_killed() {
    check(|nodes| {
        let readers = nodes.readers();
        readers.iter().for_each(|&rank| nodes.kill_daemon(rank));
        Lost::daemons(&readers)
    });
}

#[test]
fn a_node_loses_its_power() {
    check(|nodes| {
        let rank = nodes.interior();
        nodes.kill_node(rank);
        Lost { programs: vec![rank], daemons: vec![rank] }
    });
}

#[test]
fn a_daemon_hangs() {
    check(|nodes| {
        let rank = nodes.interior();
        nodes.pause(rank);
        Lost::daemons(&[rank])
    });
}

#[test]
fn a_reader_hangs_and_continues() {
    let Some(site) = Site::new() else { return };
    let expected = site.expected();
    let mut nodes = Nodes::start(&site.cluster, &site.plan());
    let reader = nodes.readers()[0];
    let others = start(&nodes, (0..NODES).filter(|&rank| rank != reader), &site.program());
    site.await_progress(0.3);
    nodes.pause(reader);
    finish(others, &expected);
    nodes.resume(reader);
    finish(start(&nodes, 0..NODES, &site.program()), &expected);
    nodes.stop();
}
