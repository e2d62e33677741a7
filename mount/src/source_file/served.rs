//! Nodes of which the snapshot may have given out bytes.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use headwater_fuse::NodeId;

/// What is to be remembered of nodes, until the kernel forgets them.
#[derive(Debug, Default)]
pub(crate) struct ServedNodes(Mutex<Nodes>);

#[derive(Debug, Default)]
struct Nodes {
    /// No predecessor has given out anything.
    is_complete: bool,
    /// Their copies were evicted: bytes of them may have been given out.
    served: HashSet<NodeId>,
    /// The kernel was told that their attributes are out of date.
    notified: HashSet<NodeId>,
}

impl ServedNodes {
    /// On a connection of which no READ has come yet.
    pub(crate) fn of_new_connection() -> ServedNodes {
        ServedNodes(Mutex::new(Nodes { is_complete: true, ..Nodes::default() }))
    }

    /// Bytes of the node may have been given out, and its copy goes.
    pub(crate) fn mark_served(&self, node: NodeId) {
        self.lock().served.insert(node);
    }

    /// Whether bytes of the node may have been given out while its copy was there.
    pub(crate) fn may_have_served(&self, node: NodeId) -> bool {
        let nodes = self.lock();
        !nodes.is_complete || nodes.served.contains(&node)
    }

    /// The kernel has forgotten the node.
    pub(super) fn forget(&self, node: NodeId) {
        let mut nodes = self.lock();
        nodes.served.remove(&node);
        nodes.notified.remove(&node);
    }

    /// Runs `notify` the first time. Who comes meanwhile waits until that is done.
    pub(crate) fn notify_once(&self, node: NodeId, notify: impl FnOnce()) {
        let mut nodes = self.lock();
        if nodes.notified.insert(node) {
            notify();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Nodes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
