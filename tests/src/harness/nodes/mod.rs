//! A session over the nodes of a cluster, started as a launcher would: one daemon on each node, with its peers'
//! addresses, and programs that run on the nodes through `headwater exec`.
//!
//! Rank r lives on the cluster's node r + 1. A daemon's files lie in its node's RAM disk, at the same path on each
//! node.

mod client;
mod daemon;
mod faults;
mod network;
mod running;

use std::path::Path;

pub use client::{Asker, serve_asks};
pub use network::in_network_of;
pub use running::{Nodes, Plan};

/// The project, with the programs that run on the nodes.
pub fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in the project")
}
