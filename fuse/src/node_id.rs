//! Numbers of nodes.

use serde::{Deserialize, Serialize};

/// The number of a node of the mounted tree, chosen by the server; the root's is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The root's.
    pub const ROOT: NodeId = NodeId(1);
}
