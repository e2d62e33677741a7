//! What a job's front end, its nodes and their processes say to each other: each message is a line of JSON.

use std::net::SocketAddr;

use headwater_daemon::{Report, Shape};
use serde::{Deserialize, Serialize};

use super::muster::Arrival;
use crate::launch::Attachment;

/// A node to the front end.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromNode {
    /// It takes part.
    Here(Arrival),
    /// It serves its processes, by this mechanism.
    Ready(String),
    /// It can't serve them; why.
    Failed(String),
    /// At the end.
    Report {
        /// How many processes have come to it.
        processes: u32,
        /// What its daemon did, if it could still say so.
        report: Option<Box<Report>>,
    },
}

/// The front end to a node.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToNode {
    /// All are there.
    Roster(Roster),
    /// The others have begun without it.
    TooLate,
    /// The launcher has ended.
    End,
}

/// Who takes part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roster {
    /// The receiver's number among the nodes.
    pub node: u32,
    /// By rank, the number of the node.
    pub nodes: Vec<u32>,
    /// By rank, where its daemon listens.
    pub addresses: Vec<SocketAddr>,
    /// How many of the first ranks only serve.
    pub servers: u32,
    /// The trees.
    pub shape: Shape,
}

/// A node to one of its processes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToProcess {
    /// It is served.
    Served {
        /// How it finds the node's daemon.
        attachment: Attachment,
        /// The session's name.
        session: String,
        /// The node's number.
        node: u32,
        /// How many nodes there are.
        nodes: u32,
    },
    /// It uses the originals; why.
    Alone(String),
}
