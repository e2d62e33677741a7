//! Nodes of which the kernel may have read content of the snapshot.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use headwater_fuse::NodeId;

/// What is known of such nodes until the kernel forgets them.
#[derive(Debug, Default)]
pub(crate) struct ServedNodes(Mutex<Nodes>);

#[derive(Debug, Default)]
struct Nodes {
    /// No predecessor has served any content.
    is_complete: bool,
    /// Their copies were evicted; content may have been served before.
    served: HashSet<NodeId>,
    /// The kernel was notified that their attributes are out of date.
    notified: HashSet<NodeId>,
}

impl ServedNodes {
    /// Returns the state of a connection without any READ so far.
    pub(crate) fn of_new_connection() -> ServedNodes {
        ServedNodes(Mutex::new(Nodes { is_complete: true, ..Nodes::default() }))
    }

    /// Notes that content of the node may have been served, because its copy is evicted.
    pub(crate) fn mark_served(&self, node: NodeId) {
        self.lock().served.insert(node);
    }

    /// Returns true if content of the node may have been served before its copy was evicted.
    pub(crate) fn may_have_served(&self, node: NodeId) -> bool {
        let nodes = self.lock();
        !nodes.is_complete || nodes.served.contains(&node)
    }

    /// Drops a node that the kernel has forgotten.
    pub(super) fn forget(&self, node: NodeId) {
        let mut nodes = self.lock();
        nodes.served.remove(&node);
        nodes.notified.remove(&node);
    }

    /// Runs `notify` for the first caller; concurrent callers wait until it is done.
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
