//! The link between the workers and the keeper.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use headwater_fuse::{Lock, NodeId};
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// The requests for the keeper.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    arrived: Arrived,
    /// The open source file of each holder of locks.
    files: HashMap<Holder, Arc<OwnedFd>>,
    /// Nodes of which the keeper knows holders.
    known: HashSet<NodeId>,
    /// Where there are no source files: a file in memory for each node.
    stand_ins: HashMap<NodeId, OwnedFd>,
    is_closed: bool,
}

/// What has arrived for the keeper.
#[derive(Debug, Default)]
pub(super) struct Arrived {
    pub(super) wanted: Vec<Wanted>,
    pub(super) interrupted: Vec<u64>,
    /// Requests for which a thread has waited, and its result.
    pub(super) ended: Vec<(u64, Result<(), Errno>)>,
    /// Nodes that no process has open.
    pub(super) forgotten: Vec<NodeId>,
}

/// Who has locks of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Holder {
    pub(super) node: NodeId,
    pub(super) owner: u64,
    pub(super) is_flock: bool,
}

/// What a request does about a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Returns a lock that excludes it.
    Find,
    /// Takes it, or fails.
    Try,
    /// Takes it as soon as nothing excludes it.
    Wait,
}

/// A request.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) unique: u64,
    /// The index of its descriptor.
    pub(super) device: usize,
    /// The waiting thread.
    pub(super) thread: u32,
    pub(super) holder: Holder,
    pub(super) lock: Lock,
    pub(super) action: Action,
    pub(super) file: Arc<OwnedFd>,
    pub(super) since: Instant,
}

impl Locks {
    /// Notes that the thread that waits for this request has received a signal.
    pub(crate) fn interrupt(&self, unique: u64) {
        self.send(|arrived| arrived.interrupted.push(unique));
    }

    /// Notes that no process has this node open.
    pub(crate) fn forget(&self, node: NodeId) {
        let mut state = self.lock();
        state.stand_ins.remove(&node);
        if state.known.remove(&node) {
            state.arrived.forgotten.push(node);
            self.changed.notify_one();
        }
    }

    /// Ends the keeper.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Passes something to the keeper. False: there is none any more.
    pub(super) fn send(&self, add: impl FnOnce(&mut Arrived)) -> bool {
        let mut state = self.lock();
        add(&mut state.arrived);
        self.changed.notify_one();
        !state.is_closed
    }

    /// Waits for what arrives, until `due`. `None`: the keeper ends.
    pub(super) fn next(&self, due: Option<Instant>) -> Option<Arrived> {
        let mut state = self.lock();
        while !state.is_closed && state.arrived.is_empty() {
            let left = due.map(|due| due.saturating_duration_since(Instant::now()));
            state = match left {
                Some(left) if left.is_zero() => break,
                Some(left) => self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
        let arrived = std::mem::take(&mut state.arrived);
        (!state.is_closed).then_some(arrived)
    }

    /// Returns the open source file of a holder.
    pub(super) fn file(&self, holder: Holder) -> Option<Arc<OwnedFd>> {
        self.lock().files.get(&holder).cloned()
    }

    /// Notes the open source file of a holder; `None`: it has no locks any more.
    pub(super) fn set_file(&self, holder: Holder, file: Option<Arc<OwnedFd>>) {
        let mut state = self.lock();
        match file {
            Some(file) => {
                state.known.insert(holder.node);
                state.files.insert(holder, file)
            }
            None => state.files.remove(&holder),
        };
    }

    /// Returns another opening of the file in memory that stands for a node's source file.
    pub(super) fn stand_in(&self, node: NodeId) -> Result<OwnedFd, Errno> {
        let mut state = self.lock();
        if let Entry::Vacant(free) = state.stand_ins.entry(node) {
            free.insert(memfd_create("locks", MemfdFlags::CLOEXEC)?);
        }
        let number = state.stand_ins[&node].as_raw_fd();
        rustix::fs::open(format!("/proc/self/fd/{number}"), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
    }

    /// Makes an opening's file stand for a node's source file.
    pub(super) fn set_stand_in(&self, node: NodeId, file: &OwnedFd) {
        if let Ok(file) = file.try_clone() {
            self.lock().stand_ins.entry(node).or_insert(file);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arrived {
    fn is_empty(&self) -> bool {
        self.wanted.is_empty() && self.interrupted.is_empty() && self.ended.is_empty() && self.forgotten.is_empty()
    }
}
