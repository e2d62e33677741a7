//! Numbers of nodes.

/// The number of a node of the mounted tree, chosen by the server; the root's is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The root's.
    pub const ROOT: NodeId = NodeId(1);
}
