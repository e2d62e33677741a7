//! Dispatches operations.

use headwater_fuse::Operation;
use headwater_fuse::init::Opening;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::call::{Call, Demand, Flow, answered};
use crate::source_file::locks::{self, Action};
use crate::view::{ACL_PREFIX, ServedBy};
use crate::{change, content, directory, nodes, source_file};

/// `HEADWATER_ATTRIBUTE` of `abi/include/headwater/calls.h`.
const SERVED_ATTRIBUTE: &[u8] = b"user.headwater.served";

/// Serves a request. Returns what it waits for, if it is not answered.
pub(crate) fn serve(call: &Call<'_>) -> Option<Demand> {
    let mut flow = dispatch(call);
    while let Flow::UseSource(path) = flow {
        call.tally.used_source();
        flow = source_file::serve(call, &path);
    }
    if let Flow::Ask(wanted) = flow { Some(wanted) } else { None }
}

fn dispatch(call: &Call<'_>) -> Flow {
    if let Some(flow) = source_file::serve_unrecorded(call) {
        return flow;
    }
    match call.request.operation {
        Operation::Lookup { name } => nodes::lookup(call, name),
        Operation::Getattr | Operation::Statx => either(nodes::getattr(call)),
        Operation::Readlink => either(nodes::readlink(call)),
        Operation::Open { .. } if call.view.config.opening == Opening::None => call.unsupported(),
        Operation::Open { flags } if writes(flags) => change::serve(call),
        Operation::Open { .. } => either(content::open(call)),
        Operation::Read { offset, bytes } => either(content::read(call, offset, bytes)),
        Operation::Lseek { offset, whence } => either(content::seek(call, offset, whence)),
        Operation::Getlk(lock) => locks::serve(call, lock, Action::Find),
        Operation::Release { handle } => content::release(call, handle),
        Operation::Opendir => directory::open(call),
        Operation::Readdir { offset, bytes, plus } => directory::read(call, offset, bytes, plus),
        Operation::Releasedir => answered(call.reply.ok()),
        Operation::Statfs => statfs(call),
        Operation::Getxattr { name, bytes } => getxattr(call, name, bytes),
        Operation::Listxattr { .. } => use_source(call),
        Operation::Forget { lookups } => {
            call.view.release(call.request.node, lookups);
            Flow::Answered
        }
        Operation::BatchForget(forgets) => {
            for (node, lookups) in forgets {
                call.view.release(node, lookups);
            }
            Flow::Answered
        }
        // ENOSYS once for each operation, and the kernel sends it no more: the kernel checks permissions itself, and
        // the source file has all data before a write returns.
        Operation::Access | Operation::Flush => call.unsupported(),
        Operation::Fsync { .. } | Operation::Fsyncdir { .. } if !call.view.config.is_writable => call.unsupported(),
        Operation::Destroy => answered(call.reply.ok()),
        Operation::Interrupt { .. } => Flow::Answered,
        Operation::Init(_) => call.fail(Errno::IO),
        Operation::Unknown(_) => call.unsupported(),
        _ if !call.view.config.is_writable => call.fail(Errno::ROFS),
        _ => change::serve(call),
    }
}

/// Returns the outcome, early or not.
fn either(outcome: Result<Flow, Flow>) -> Flow {
    outcome.unwrap_or_else(|early| early)
}

/// Returns true if an open with these flags may write.
fn writes(flags: u32) -> bool {
    let flags = OFlags::from_bits_retain(flags);
    flags.intersects(OFlags::WRONLY | OFlags::RDWR | OFlags::TRUNC)
}

fn statfs(call: &Call<'_>) -> Flow {
    match call.view.statfs() {
        Ok(statfs) => answered(call.reply.statfs(statfs)),
        Err(errno) => call.fail(errno),
    }
}

/// Answers attributes that the kernel requests of every file; they belong to the mount, not to the source file. So does
/// the one by which programs ask whether a file is served.
fn getxattr(call: &Call<'_>, name: &[u8], bytes: u32) -> Flow {
    if name == SERVED_ATTRIBUTE {
        return match (is_served(call), bytes) {
            (true, 0) => answered(call.reply.count(1)),
            (true, _) => answered(call.reply.data(b"1")),
            (false, _) => call.fail(Errno::NODATA),
        };
    }
    if name.starts_with(ACL_PREFIX) && call.view.has_user_namespace() {
        return call.fail(Errno::OPNOTSUPP);
    }
    if name.starts_with(b"security.") {
        return call.fail(Errno::NODATA);
    }
    use_source(call)
}

/// Returns true if the request's file is served, rather than the source file.
fn is_served(call: &Call<'_>) -> bool {
    let (view, node) = (call.view, call.request.node);
    let path = view.path_of(node).filter(|_| view.source_files.unrecorded(node).is_none());
    path.is_some_and(|path| {
        let state = view.tables.read(|reader| reader.find(path.as_bytes()).map(|record| record.state));
        view.served_by(&path, state.unwrap_or_default()) == ServedBy::Snapshot
    })
}

fn use_source(call: &Call<'_>) -> Flow {
    match call.view.path_of(call.request.node) {
        Some(path) if call.view.is_hidden(&path) => call.fail(Errno::OPNOTSUPP),
        Some(path) => call.use_source(&path),
        None => call.fail(Errno::STALE),
    }
}
