//! The statistics of daemons.

use anyhow::{Result, bail};
use headwater_daemon::protocol::{Answer, Command};
use headwater_daemon::stats::{NodeStats, PeerStats};

use super::client;
use super::find::Node;

/// Returns the statistics of a node's daemon.
pub fn of_node(node: &Node) -> Result<NodeStats> {
    match client::ask(&node.socket, Command::Stats)? {
        Answer::Stats(stats) => Ok(*stats),
        _ => bail!("the daemon at {} has an answer of another version", node.socket.display()),
    }
}

/// Returns a peer's name, or else its rank.
pub fn peer_name(peer: &PeerStats) -> String {
    peer.name.clone().unwrap_or_else(|| format!("rank {}", peer.rank))
}
