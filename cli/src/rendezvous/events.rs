//! What becomes of a job's nodes, for those who wait.

use crate::rendezvous::messages::FromNode;

/// What becomes of the nodes.
#[derive(Debug)]
pub enum NodeEvent {
    /// All are there.
    Members {
        /// So many.
        count: u32,
        /// So many at least are missing.
        missing: u32,
        /// All nodes of the program have the library for its I/O.
        has_io: bool,
    },
    /// A node says something.
    Message(u32, FromNode),
    /// A node's connection has ended.
    Disconnected(u32),
    /// So many launches use the session.
    Launches(u32),
    /// Somebody wants the session to end.
    Stop,
}
