//! Nodes on one machine: that they are apart from each other and from the host, and that nothing of
//! them stays.

mod commands;
mod delays;
mod ends;
mod links;
mod nodes;
mod traces;

use std::time::Duration;

use headwater_cluster::{Cluster, Error, Node, Options};
use headwater_tests::harness::{skipped, wait_until};

/// How long the kernel may take to end processes that were killed, on a machine that does other things.
const END_MAX: Duration = Duration::from_secs(20);

/// Waits for the end of `what`.
fn await_end(what: &str, is_over: impl FnMut() -> bool) {
    assert!(wait_until(END_MAX, is_over), "{what} did not end");
}

/// A cluster, or `None` and the reason on standard output if there can't be one here.
fn cluster(nodes: usize, options: &Options) -> Option<Cluster> {
    match Cluster::up(nodes, options) {
        Ok(cluster) => Some(cluster),
        Err(reason @ (Error::NotRoot { .. } | Error::Program { .. } | Error::Kernel { .. } | Error::Delay { .. })) => {
            skipped(reason);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The output of a shell's commands on a node; they must succeed.
fn shell(node: &Node, commands: &str) -> String {
    let output = node.command("sh").args(["-euc", commands]).output().expect("nsenter is installed");
    assert!(output.status.success(), "{} on {}: {}", commands, node.name, String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the commands write text").trim().to_owned()
}
