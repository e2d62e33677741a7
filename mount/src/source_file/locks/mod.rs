//! Locks of files, of `fcntl`, `lockf` and `flock`: each is taken on the source file, so it excludes processes of other
//! nodes, of other sessions and outside of any, as far as the shared file system does that.
//!
//! Workers open the source files and pass the requests on; one thread, the [keeper](keeper), takes the locks and
//! answers. The kernel reports that a file with locks is closed only where it also sends OPEN and FLUSH for every file,
//! which opening alone does without. So the keeper [watches](owner) those who have locks.

pub(crate) mod handover;
pub(crate) mod keeper;
mod operations;
mod owner;
pub(crate) mod queue;
mod waiter;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use headwater_abi::Kind;
use headwater_fuse::{Lock, LockKind};
use rustix::fs::OFlags;
use rustix::io::Errno;

pub(crate) use self::queue::Action;
use self::queue::{Holder, Wanted};
use crate::call::{Call, Flow, answered};
use crate::caller::as_caller;
use crate::source_file::target_of;

/// Serves GETLK, SETLK and SETLKW. The keeper answers.
pub(crate) fn serve(call: &Call<'_>, lock: Lock, action: Action) -> Flow {
    let node = call.request.node;
    let holder = Holder { node, owner: lock.owner, is_flock: lock.is_flock };
    let locks = &call.view.source_files.locks;
    let file = match locks.file(holder) {
        Some(file) => file,
        // Who has no locks unlocks nothing.
        None if lock.kind == LockKind::Unlock => return answered(call.reply.ok()),
        None => match open(call) {
            Ok(file) => Arc::new(file),
            Err(errno) => return call.fail(errno),
        },
    };
    let (unique, thread) = (call.request.unique, call.request.pid);
    let wanted = Wanted { unique, device: call.device, thread, holder, lock, action, file, since: Instant::now() };
    if locks.send(|arrived| arrived.wanted.push(wanted)) { Flow::Answered } else { call.fail(Errno::NOLCK) }
}

/// Opens the source file of the request's node, for locks of all kinds if possible: their kind can change.
fn open(call: &Call<'_>) -> Result<OwnedFd, Errno> {
    if !call.view.has_source {
        return call.view.source_files.locks.stand_in(call.request.node);
    }
    let path = call.view.path_of(call.request.node).ok_or(Errno::STALE)?;
    let target = target_of(call, &path)?;
    if target.attr.kind() != Kind::File {
        return Err(Errno::NOLCK);
    }
    let open = || {
        let first = target.open(OFlags::RDWR);
        first.or_else(|first| target.open(OFlags::RDONLY).or_else(|_| target.open(OFlags::WRONLY)).map_err(|_| first))
    };
    // The caller may have received the descriptor from a process that was allowed to open the file.
    as_caller(call.request, open).or_else(|_| open())
}
