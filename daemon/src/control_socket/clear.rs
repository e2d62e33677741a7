//! `clear`: the store's copies of some paths are given up.
//!
//! Where a file system is mounted, the kernel is told first to forget those of its nodes that nobody
//! uses, and their pages. It then says that it has, node by node; what it still refers to after that
//! is in use.

use std::collections::VecDeque;

use headwater_abi::Path;
use headwater_proto::Time;
use mio::Token;

use super::protocol::Cleared;

/// What is to be cleared, one request after the other.
#[derive(Debug, Default)]
pub(crate) struct Clearings {
    pub(crate) queue: VecDeque<Clearing>,
    /// When to look whether the kernel has forgotten.
    pub(crate) due: Option<Time>,
}

#[derive(Debug)]
pub(crate) struct Clearing {
    pub(crate) token: Token,
    pub(crate) todo: VecDeque<(Path, bool)>,
    pub(crate) sum: Cleared,
    /// While the kernel forgets.
    pub(crate) forgetting: Option<Forgetting>,
}

#[derive(Debug)]
pub(crate) struct Forgetting {
    pub(crate) pinned: u64,
    /// When that last changed.
    pub(crate) since: Time,
    pub(crate) until: Time,
}

impl Clearings {
    /// When to check whether the kernel has forgotten.
    pub(crate) fn due(&self) -> Option<Time> {
        self.due
    }

    /// What is being cleared, once the kernel has forgotten; to be told what became of each file.
    pub(crate) fn current(&mut self) -> Option<&mut Cleared> {
        self.queue.front_mut().filter(|clearing| clearing.forgetting.is_none()).map(|clearing| &mut clearing.sum)
    }
}
