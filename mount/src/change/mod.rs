//! Changes of the tree: made in the source files, at once, as the calling user.
//!
//! A path becomes a passthrough path before it is changed: the node informs all others, and all use its source file
//! from then on. A request restarts after each answer of the node. So all that it needs from the node is fetched before
//! it changes anything.

pub(crate) mod append;
mod attributes;
mod content;
mod emptiness;
mod names;
mod passthrough;

use headwater_fuse::{NodeId, Operation, Request};

use self::passthrough::Stop;
use crate::call::{Call, Demand, Flow};
use crate::view::View;

/// Serves a request that changes the tree.
pub(super) fn serve(call: &Call<'_>) -> Flow {
    if call.attempt.at_once {
        return Flow::Ask(Demand::BlockingThread);
    }
    let result = match call.request.operation {
        Operation::Create { flags, mode, umask, name } => names::create(call, name, flags, mode, umask),
        Operation::Mknod { mode, rdev, umask, name } => names::mknod(call, name, mode, rdev, umask),
        Operation::Mkdir { mode, umask, name } => names::mkdir(call, name, mode, umask),
        Operation::Symlink { name, target } => names::symlink(call, name, target),
        Operation::Link { existing, name } => names::link(call, existing, name),
        Operation::Unlink { name } => names::remove(call, name, false),
        Operation::Rmdir { name } => names::remove(call, name, true),
        Operation::Rename { name, to, to_name, flags } => names::rename(call, name, to, to_name, flags),
        Operation::Setattr(wanted) => attributes::set(call, &wanted),
        Operation::Setxattr { name, value, flags } => attributes::set_xattr(call, name, value, flags),
        Operation::Removexattr { name } => attributes::remove_xattr(call, name),
        Operation::Open { flags } => content::open(call, flags),
        Operation::Write { offset, flags, is_from_cache, data } => {
            content::write(call, offset, flags, is_from_cache, data)
        }
        Operation::Fallocate { offset, bytes, mode } => content::allocate(call, offset, bytes, mode),
        Operation::Setlk { lock, waits } => content::lock(call, lock, waits),
        Operation::Fsync { data_only } => content::sync(call, data_only),
        Operation::Fsyncdir { data_only } => content::sync_directory(call, data_only),
        // COPY_FILE_RANGE: the kernel then reads and writes.
        _ => return call.unsupported(),
    };
    match result {
        Ok(flow) | Err(Stop::Flow(flow)) => flow,
        Err(Stop::Fail(errno)) => call.fail(errno),
    }
}

/// Returns the nodes that the kernel has locked while a change waits: what changes, or the directories of its names, and
/// the directories that it moves, replaces or removes.
pub(crate) fn locked_by(view: &View, request: &Request<'_>) -> Vec<NodeId> {
    match request.operation {
        Operation::Rename { name, to, to_name, .. } => {
            let ends = [(request.node, name), (to, to_name)];
            let moved = ends.into_iter().filter_map(|(directory, name)| view.child_of(directory, name));
            moved.chain([request.node, to]).collect()
        }
        Operation::Rmdir { name } => view.child_of(request.node, name).into_iter().chain([request.node]).collect(),
        Operation::Link { existing, .. } => vec![request.node, existing],
        Operation::Create { .. }
        | Operation::Mknod { .. }
        | Operation::Mkdir { .. }
        | Operation::Symlink { .. }
        | Operation::Unlink { .. }
        | Operation::Setattr(_)
        | Operation::Setxattr { .. }
        | Operation::Removexattr { .. }
        | Operation::Open { .. }
        | Operation::Write { .. }
        | Operation::Fallocate { .. } => vec![request.node],
        _ => Vec::new(),
    }
}
