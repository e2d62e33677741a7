//! Nodes of the snapshot of which no byte has been given out: when the original under the path is another
//! file by then, they become that one. Whoever opened the node sees what it would have seen by opening
//! the original now.
//!
//! The kernel believes in the snapshot's size. A shorter file it understands by an answer with fewer bytes
//! than it has asked for, and a longer one by the answer to GETATTR; but neither if a notice comes between
//! question and answer. So of a longer one it is told once, before the first bytes are answered, and then
//! not by the queue of notices, or a reader would stop at the old end. Of another one it is told some
//! moments after the last answer, or a reader would find zeros behind the new end.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use headwater_abi::table::State;
use headwater_abi::{Kind, Path};
use headwater_fuse::NodeId;

use super::places::Identity;
use super::target::Target;
use super::{ATTRIBUTES_ALONE, replaced};
use crate::view::{Call, View};

/// What is to be remembered of nodes, until the kernel forgets them.
#[derive(Debug, Default)]
pub(crate) struct First(Mutex<Nodes>);

#[derive(Debug, Default)]
struct Nodes {
    /// No predecessor has given out anything.
    is_complete: bool,
    /// Their copies were evicted: bytes of them may have been given out.
    given: HashSet<NodeId>,
    /// The kernel was told that their attributes are out of date.
    told: HashSet<NodeId>,
}

impl First {
    /// On a connection of which no READ has come yet.
    pub(crate) fn of_new_connection() -> First {
        First(Mutex::new(Nodes { is_complete: true, ..Nodes::default() }))
    }

    /// Bytes of the node may have been given out, and its copy goes.
    pub(crate) fn was_given(&self, node: NodeId) {
        self.lock().given.insert(node);
    }

    fn has_given(&self, node: NodeId) -> bool {
        let nodes = self.lock();
        !nodes.is_complete || nodes.given.contains(&node)
    }

    /// The kernel has forgotten the node.
    pub(super) fn forget(&self, node: NodeId) {
        let mut nodes = self.lock();
        nodes.given.remove(&node);
        nodes.told.remove(&node);
    }

    /// Runs `tell` the first time. Who comes meanwhile waits until that is done.
    fn tell_once(&self, node: NodeId, tell: impl FnOnce()) {
        let mut nodes = self.lock();
        if nodes.told.insert(node) {
            tell();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Nodes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the snapshot may have given out bytes of this node: then they, and no others, are its content.
pub(crate) fn is_given(view: &View, node: NodeId, path: &Path) -> bool {
    let is_whole = |state: State| state.contains(State::WHOLE);
    view.table(|reader| reader.record(node.0).is_none_or(|record| is_whole(record.state)))
        || view.blocks.has_any(path)
        || view.originals.first.has_given(node)
}

/// The file that has taken the place of the request's node at `path`, if nothing was given out of the
/// one before.
pub(super) fn successor(call: &Call<'_>, path: &Path) -> Option<Target> {
    let (attr, _) = replaced(call, path)?;
    let target = Target::at(path).ok()?;
    // What is no file can't be read, and the kernel would not have a node become one.
    let is_file = attr.kind() == Kind::File && target.attr.kind() == Kind::File;
    (is_file && !is_given(call.view, call.request.node, path)).then_some(target)
}

/// As [`successor`]; from now on the node is this file.
pub(super) fn adopt(call: &Call<'_>, path: &Path) -> Option<Target> {
    let target = successor(call, path)?;
    call.view.originals.adopt(call.request.node, path, Identity::of(&target.attr)).then_some(target)
}

/// The request is about to be answered with bytes of this file, for a node that the snapshot has described
/// as one of `bytes` bytes. False if the snapshot may have given some out, too.
pub(super) fn tell(call: &Call<'_>, path: &Path, file: &OwnedFd, bytes: u64) -> bool {
    let (view, node) = (call.view, call.request.node);
    if is_given(view, node, path) {
        return false;
    }
    if rustix::fs::fstat(file).is_ok_and(|now| now.st_size as u64 <= bytes) {
        view.notices.postpone(node);
        return true;
    }
    view.originals.first.tell_once(node, || {
        view.notices.cancel(node);
        let _ = call.reply.device.invalidate_node(node, ATTRIBUTES_ALONE, 0);
    });
    true
}
