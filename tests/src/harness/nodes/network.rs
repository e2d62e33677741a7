//! The nodes' networks, from inside and from outside.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::thread;

use headwater_cluster::{Cluster, Node};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The bridge that cut-off nodes are connected to.
const ISLAND: &str = "island";
/// The bridge of all others.
const MAINLAND: &str = "bridge";

/// Returns the result of `work`, called in a node's network. Sockets that it makes stay there, whichever process uses
/// them.
pub fn in_network_of<T: Send>(node: &Node, work: impl FnOnce() -> T + Send) -> T {
    among(node, &[("net", LinkNameSpaceType::Network)], work)
}

/// Returns the result of `work` on a node, but for the node's mounts. Processes that it starts are the node's.
pub(super) fn on<T: Send>(node: &Node, work: impl FnOnce() -> T + Send) -> T {
    let namespaces = [
        ("net", LinkNameSpaceType::Network),
        ("uts", LinkNameSpaceType::HostNameAndNISDomainName),
        ("ipc", LinkNameSpaceType::InterProcessCommunication),
        ("pid", LinkNameSpaceType::ProcessID),
    ];
    among(node, &namespaces, work)
}

fn among<T: Send>(node: &Node, namespaces: &[(&str, LinkNameSpaceType)], work: impl FnOnce() -> T + Send) -> T {
    let inside = || {
        for (name, kind) in namespaces {
            let entered = namespace(node, name).and_then(|it| Ok(move_into_link_name_space(it.as_fd(), Some(*kind))?));
            entered.unwrap_or_else(|e| panic!("the namespace {name} of {} can't be entered: {e}", node.name));
        }
        work()
    };
    // A thread has namespaces of its own, and takes them along when it ends.
    thread::scope(|scope| scope.spawn(inside).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

/// A namespace of a node, by its name in `/proc`.
pub(super) fn namespace(node: &Node, name: &str) -> io::Result<File> {
    File::open(format!("/proc/{}/ns/{name}", node.holder.pid))
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
    let ports = nodes.iter().flat_map(|node| (0..node.interfaces).map(|number| node.port(number)));
    ports.for_each(|port| run(cluster, &["link", "set", &port, "master", bridge]));
}

/// Pulls the cable of one of a node's interfaces out of the switch. Both ends stay up: packets are lost.
pub(super) fn unplug(cluster: &Cluster, node: &Node, interface: usize) {
    run(cluster, &["link", "set", &node.port(interface), "nomaster"]);
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
