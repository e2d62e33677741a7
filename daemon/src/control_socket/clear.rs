//! `clear`: evicts the store's copies of some paths.
//!
//! With a mount, the kernel is first asked to forget unused nodes and their pages. It confirms this node by node; nodes
//! that it still refers to after that are in use.

use std::collections::VecDeque;

use headwater_abi::Path;
use headwater_proto::Time;
use mio::Token;

use super::protocol::Cleared;

/// Pending requests to clear, in order.
#[derive(Debug, Default)]
pub(crate) struct Clearings {
    pub(crate) queue: VecDeque<Clearing>,
    /// When to check whether the kernel has forgotten the nodes.
    pub(crate) due: Option<Time>,
}

#[derive(Debug)]
pub(crate) struct Clearing {
    pub(crate) token: Token,
    pub(crate) todo: VecDeque<(Path, bool)>,
    pub(crate) sum: Cleared,
    /// Set while the kernel forgets nodes.
    pub(crate) forgetting: Option<Forgetting>,
}

#[derive(Debug)]
pub(crate) struct Forgetting {
    pub(crate) pinned: u64,
    /// When `pinned` last changed.
    pub(crate) since: Time,
    pub(crate) until: Time,
}

impl Clearings {
    /// Returns the sum of the current request, once the kernel has forgotten the nodes.
    pub(crate) fn current(&mut self) -> Option<&mut Cleared> {
        self.queue.front_mut().filter(|clearing| clearing.forgetting.is_none()).map(|clearing| &mut clearing.sum)
    }
}
