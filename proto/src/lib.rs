//! The sans-IO core of a node.
//!
//! [`Node`] decides; a driver (the daemon, or the simulator) executes. There is no I/O, no clock and no file
//! content here: the crate is `no_std`, time is an argument, and content is named by path, position and
//! length.

#![no_std]

extern crate alloc;

mod ahead;
mod config;
mod entries;
mod entry;
mod evict;
mod io;
mod node;
mod passthrough;
mod pending;
mod policy;
mod scope;
mod state;
mod stored;
mod timeouts;
pub mod topology;
mod transfer;
mod traversal;
mod versions;
mod walk;

pub use config::kinds::{Kinds, NotKinds, Stored};
pub use config::{Config, Limits, Policy};
pub use io::{ClientId, Input, Load, Memory, Output, Peer, Publication, Reply, Stats, Time};
pub use node::Node;
pub use state::direct::{COMPARING_NODES_MAX, Rates};
pub use topology::{Forest, Rank, Shape, TreeId};
