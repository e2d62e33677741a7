//! Events of a job's nodes.

use headwater_daemon::Report;

use crate::rendezvous::messages::FromNode;

/// An event of the rendezvous.
#[derive(Debug)]
pub enum NodeEvent {
    /// Membership is decided.
    Members {
        /// Number of nodes.
        count: u32,
        /// Lower bound of the number of missing nodes.
        missing: u32,
        /// Whether all nodes of the program have the I/O library.
        has_io: bool,
    },
    /// Some nodes lack interfaces that the user named.
    InterfacesMissing {
        /// The first of these nodes.
        node: String,
        /// The interfaces that it lacks.
        names: String,
        /// Number of these nodes.
        nodes: u32,
        /// Number of these that have none of the interfaces.
        without: u32,
    },
    /// A message from this node.
    Message(u32, FromNode),
    /// The connection to this node has ended.
    Disconnected(u32),
    /// Number of launches that use the session.
    Launches(u32),
    /// A request to end the session.
    Stop,
    /// This node's daemon has reported before its end, or has failed to.
    Reported(Option<Box<Report>>),
    /// The node's processes have ended, and the batch system is about to kill what is left.
    Leave,
}
