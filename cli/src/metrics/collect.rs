//! Asks this machine's daemons.

use std::path::Path;
use std::thread;

use headwater_daemon::stats::NodeStats;

use super::families::{Family, Session, of_sessions};
use crate::control::find::{Node, living};
use crate::control::stats::of_node;

/// Daemons that are asked at the same time.
const ASKED_MAX: usize = 16;

/// Returns the metrics of all live sessions of this user on this machine.
pub fn collect(store: Option<&Path>) -> Vec<Family> {
    let sessions = living(store).into_iter().map(|found| {
        let answers: Vec<Option<NodeStats>> = found.nodes.chunks(ASKED_MAX).flat_map(ask).collect();
        let silent = answers.iter().filter(|answer| answer.is_none()).count();
        Session { name: found.name, nodes: answers.into_iter().flatten().collect(), silent }
    });
    of_sessions(&sessions.collect::<Vec<_>>())
}

fn ask(nodes: &[Node]) -> Vec<Option<NodeStats>> {
    thread::scope(|scope| {
        let asked: Vec<_> = nodes.iter().map(|node| scope.spawn(|| of_node(node).ok())).collect();
        asked.into_iter().map(|thread| thread.join().ok().flatten()).collect()
    })
}
