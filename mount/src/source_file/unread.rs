//! Nodes of the snapshot of which no byte has been given out: when the original under the path is another
//! file by then, they become that one. Whoever opened the node sees what it would have seen by opening
//! the original now.
//!
//! The kernel believes in the snapshot's size. A shorter file it understands by an answer with fewer bytes
//! than it has asked for, and a longer one by the answer to GETATTR; but neither if a notice comes between
//! question and answer. So of a longer one it is told once, before the first bytes are answered, and then
//! not by the queue of notices, or a reader would stop at the old end. Of another one it is told some
//! moments after the last answer, or a reader would find zeros behind the new end.

use std::os::fd::OwnedFd;

use headwater_abi::table::State;
use headwater_abi::{Attr, Kind, Path};
use headwater_fuse::NodeId;

use super::identity::Identity;
use super::target::Target;
use crate::call::Call;
use crate::view::View;

/// An offset that means no page.
pub(crate) const ATTRIBUTES_ALONE: i64 = -1;

/// Whether the snapshot may have given out bytes of this node: then they, and no others, are its content.
pub(crate) fn may_have_served(view: &View, node: NodeId, path: &Path) -> bool {
    let is_whole = |state: State| state.contains(State::WHOLE);
    view.table(|reader| reader.record(node.0).is_none_or(|record| is_whole(record.state)))
        || view.blocks.has_any(path)
        || view.source_files.served.may_have_served(node)
}

/// The file that has taken the place of the request's node at `path`, if nothing was given out of the
/// one before.
pub(crate) fn successor(call: &Call<'_>, path: &Path) -> Option<Target> {
    let (attr, _) = replaced(call, path)?;
    let target = Target::at(path).ok()?;
    // What is no file can't be read, and the kernel would not have a node become one.
    let is_file = attr.kind() == Kind::File && target.attr.kind() == Kind::File;
    (is_file && !may_have_served(call.view, call.request.node, path)).then_some(target)
}

/// As [`successor`]; from now on the node is this file.
pub(crate) fn adopt(call: &Call<'_>, path: &Path) -> Option<Target> {
    let target = successor(call, path)?;
    call.view.source_files.adopt(call.request.node, path, Identity::of(&target.attr)).then_some(target)
}

/// The request is about to be answered with bytes of this file, for a node that the snapshot has described
/// as one of `bytes` bytes. False if the snapshot may have given some out, too.
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

/// The snapshot's attributes of the request's node, if the job has replaced or removed what was at
/// `path`. The node is of use to who has it open.
pub(crate) fn replaced(call: &Call<'_>, path: &Path) -> Option<(Attr, Identity)> {
    let view = call.view;
    let is_snapshot = view.is_writable && view.source_files.path_of(call.request.node).is_none();
    if !is_snapshot || !view.is_passthrough(path, false) {
        return None;
    }
    let attr = view.table(|reader| reader.record(call.request.node.0)?.attr())?;
    Some((attr, Identity::of(&attr)))
}
