//! The nodes' networks, from inside and from outside.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::thread;

use headwater_cluster::{Cluster, Node};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The bridge that cut-off nodes are connected to.
const ISLAND: &str = "island";
/// The bridge of all others.
const MAINLAND: &str = "bridge";

/// What `work` gives when it is called in a node's network. Sockets that it makes stay there, whoever uses
/// them.
pub fn in_network_of<T: Send>(node: &Node, work: impl FnOnce() -> T + Send) -> T {
    let path = format!("/proc/{}/ns/net", node.holder.pid);
    let inside = || {
        let network = File::open(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
            .unwrap_or_else(|e| panic!("{}'s network can't be entered: {e}", node.name));
        work()
    };
    // A thread has a network of its own, and takes it along when it ends.
    thread::scope(|scope| scope.spawn(inside).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

/// Connects these nodes with each other, and with no other node. Their links stay up: packets that would
/// leave the island are lost, as behind a switch that fails.
pub(super) fn cut_off(cluster: &Cluster, nodes: &[&Node]) {
    // It is there if another part was cut off before.
    let _ = on_the_switch(cluster, &["link", "add", ISLAND, "type", "bridge", "mcast_snooping", "0"]);
    run(cluster, &["link", "set", ISLAND, "up"]);
    move_to(cluster, nodes, ISLAND);
}

/// Connects these nodes with all that were not cut off.
pub(super) fn reconnect(cluster: &Cluster, nodes: &[&Node]) {
    move_to(cluster, nodes, MAINLAND);
}

fn move_to(cluster: &Cluster, nodes: &[&Node], bridge: &str) {
    nodes.iter().for_each(|node| run(cluster, &["link", "set", &node.name, "master", bridge]));
}

fn run(cluster: &Cluster, arguments: &[&str]) {
    if let Err(complaint) = on_the_switch(cluster, arguments) {
        panic!("ip {}: {complaint}", arguments.join(" "));
    }
}

fn on_the_switch(cluster: &Cluster, arguments: &[&str]) -> Result<(), String> {
    let network = format!("--net=/proc/{}/ns/net", cluster.running().switch.pid);
    let mut command = Command::new("nsenter");
    let output = command.args([&network, "--", "ip"]).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|e| e.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}
