//! Nodes of the snapshot without any served byte. If the source file at such a node's path has been replaced, the node
//! becomes the new file. So a process that has opened the node sees the present source file.
//!
//! The kernel uses the snapshot's size. It learns of a shorter file from a short answer to READ, and of a longer one
//! from GETATTR, unless a notification arrives between request and answer. So for a longer file it is notified once,
//! before the first answer with bytes, and not by the queue: otherwise a reader would stop at the old end. For other
//! files the notification is delayed until some time after the last answer: otherwise a reader would find zeros behind
//! the new end.

use std::os::fd::OwnedFd;

use headwater_abi::table::State;
use headwater_abi::{Attr, Kind, Path};
use headwater_fuse::NodeId;

use super::identity::Identity;
use super::target::Target;
use crate::call::Call;
use crate::view::View;

/// An offset that covers no page.
pub(crate) const ATTRIBUTES_ALONE: i64 = -1;

/// Returns true if bytes of the snapshot may have been served for this node; then its content must not change.
pub(crate) fn may_have_served(view: &View, node: NodeId, path: &Path) -> bool {
    let is_whole = |state: State| state.contains(State::WHOLE);
    view.tables.read(|reader| reader.record(node.0).is_none_or(|record| is_whole(record.state)))
        || view.blocks.has_any(path)
        || view.source_files.served.may_have_served(node)
}

/// Returns the file that has replaced the request's node at `path`, if no byte of the old one was served.
pub(crate) fn successor(call: &Call<'_>, path: &Path) -> Option<Target> {
    let (attr, _) = replaced(call, path).filter(|_| call.view.source_files.bound(call.request.node).is_none())?;
    let target = Target::at(path).ok()?;
    // Only regular files can be read, and the kernel accepts no change of a node's type.
    let is_file = attr.kind() == Kind::File && target.attr.kind() == Kind::File;
    (is_file && !may_have_served(call.view, call.request.node, path)).then_some(target)
}

/// As [`successor`]; binds the node to the new file.
pub(crate) fn adopt(call: &Call<'_>, path: &Path) -> Option<Target> {
    let target = successor(call, path)?;
    call.view.source_files.adopt(call.request.node, path, Identity::of(&target.attr)).then_some(target)
}

/// Prepares an answer with bytes of this file, for a node that the snapshot described with `bytes` bytes. Returns false
/// if bytes of the snapshot may have been served too.
pub(crate) fn notify_size(call: &Call<'_>, path: &Path, file: &OwnedFd, bytes: u64) -> bool {
    let (view, node) = (call.view, call.request.node);
    if may_have_served(view, node, path) {
        return false;
    }
    if rustix::fs::fstat(file).is_ok_and(|now| now.st_size as u64 <= bytes) {
        view.notices.postpone(node);
        return true;
    }
    view.source_files.served.notify_once(node, || {
        view.notices.cancel(node);
        let _ = call.reply.device.invalidate_node(node, ATTRIBUTES_ALONE, 0);
    });
    true
}

/// Returns the snapshot's attributes of the request's node, if the job has replaced or removed the file at `path`.
/// Processes may still have the node open.
pub(crate) fn replaced(call: &Call<'_>, path: &Path) -> Option<(Attr, Identity)> {
    let view = call.view;
    if !view.config.is_writable || !view.is_passthrough(path, false) {
        return None;
    }
    let attr = view.tables.read(|reader| reader.record(call.request.node.0)?.attr())?;
    let identity = Identity::of(&attr);
    let is_snapshot = view.source_files.bound(call.request.node).is_none_or(|bound| bound.is_also(&identity));
    is_snapshot.then_some((attr, identity))
}
