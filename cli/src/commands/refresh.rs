//! `headwater refresh`: publishes changes of the shared file system to programs that start later.

use std::io::stdout;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use headwater_daemon::protocol::{Answer, Command, PathText, Refreshed};
use serde::Serialize;

use super::clear::original;
use crate::control::client;
use crate::control::find::{Node, find};
use crate::control::options::RefreshOptions;
use crate::control::stats::of_node;
use crate::message::{log, show};

/// How long the nodes may take to follow.
const FOLLOW_MAX: Duration = Duration::from_secs(10);
/// How often the nodes are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Serialize)]
struct Shown<'a> {
    session: &'a str,
    #[serde(flatten)]
    refreshed: Refreshed,
    /// Nodes on this machine that have not followed.
    behind: &'a [u32],
}

/// Refreshes the named paths; returns the exit status.
pub fn refresh(options: &RefreshOptions) -> Result<u8> {
    let session = find(&options.nodes)?;
    let node = session.nodes.first().context("the session has no node here")?;
    let paths: Result<Vec<PathText>> =
        options.paths.iter().map(|path| Ok(PathText::from(&*original(node, path)?))).collect();
    let refreshed = match client::ask(&node.socket, Command::Refresh(paths?))? {
        Answer::Refreshed(refreshed) => refreshed,
        _ => bail!("the daemon's answer is of another version; use the session's own headwater"),
    };
    let behind = wait_for(&session.nodes, refreshed.generation);
    if options.json {
        let shown = Shown { session: &session.name, refreshed, behind: &behind };
        show(stdout(), serde_json::to_string(&shown)? + "\n");
    } else {
        show(stdout(), describe(&refreshed));
    }
    for node in &behind {
        log(format_args!(
            "warning: node {node} has not followed within {} s; programs that start there may see the previous generation",
            FOLLOW_MAX.as_secs()
        ));
    }
    Ok(u8::from(!behind.is_empty()))
}

/// Waits until all nodes and their kernels have this generation; returns the nodes that don't.
fn wait_for(nodes: &[Node], generation: u64) -> Vec<u32> {
    let deadline = Instant::now() + FOLLOW_MAX;
    let is_there = |node: &Node| of_node(node).is_ok_and(|stats| stats.generation >= generation && !stats.is_settling);
    let mut behind: Vec<&Node> = nodes.iter().collect();
    loop {
        behind.retain(|node| !is_there(node));
        if behind.is_empty() || Instant::now() >= deadline {
            return behind.into_iter().map(|node| node.number).collect();
        }
        thread::sleep(CHECK_INTERVAL);
    }
}

fn describe(refreshed: &Refreshed) -> String {
    let Refreshed { generation, changed, files } = *refreshed;
    match changed {
        Some(0) => format!("generation {generation} stays: nothing has changed, {files} files are retained\n"),
        Some(changed) => format!("generation {generation}: {changed} paths have changed, {files} files are retained\n"),
        None => format!("generation {generation}: everything is read anew\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_is_described() {
        let check = |changed, expected: &str| {
            assert_eq!(describe(&Refreshed { generation: 3, changed, files: 7 }), expected);
        };
        check(Some(2), "generation 3: 2 paths have changed, 7 files are retained\n");
        check(Some(0), "generation 3 stays: nothing has changed, 7 files are retained\n");
        check(None, "generation 3: everything is read anew\n");
    }
}
