//! Writing to files.
//!
//! The kernel checks the permission at open and then writes by node. Nothing is buffered here: a write is answered once
//! the source file has it.

use std::borrow::Cow;
use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use headwater_abi::Path;
use headwater_fuse::{Lock, LockKind, NodeId};
use rustix::fs::{FallocateFlags, OFlags, fallocate, fdatasync, fsync};
use rustix::io::{Errno, ReadWriteFlags, pread, pwritev2};

use super::append::Appended;
use super::passthrough::{Stop, make_passthrough, path_of};
use crate::call::{Call, Flow, answered};
use crate::caller::{as_caller, as_either, as_writer};
use crate::source_file::locks::{self, Action};
use crate::source_file::{Identity, Target, Writer, check_file, reader, target_of};

/// OPEN for writing, where the kernel asks for it.
pub(super) fn open(call: &Call<'_>, flags: u32) -> Result<Flow, Stop> {
    let writer = passthrough_writer(call)?;
    if OFlags::from_bits_retain(flags).contains(OFlags::TRUNC) {
        as_writer(call.request, || rustix::fs::ftruncate(&*writer.fd, 0))?;
    }
    Ok(answered(call.reply.open(0, 0, None)))
}

/// WRITE.
pub(super) fn write(call: &Call<'_>, offset: u64, flags: u32, is_from_cache: bool, data: &[u8]) -> Result<Flow, Stop> {
    let writer = passthrough_writer(call)?;
    call.view.source_files.kept.supplied(call.request.node);
    let how = if is_from_cache { ReadWriteFlags::empty() } else { how(OFlags::from_bits_retain(flags)) };
    let how = if writer.hands_over { how | ReadWriteFlags::DSYNC } else { how };
    if how.contains(ReadWriteFlags::APPEND) {
        return append(call, &writer, data, offset, how);
    }
    let write = || write_all(&writer, data, offset, how);
    // Pages that are written back have no caller; the kernel passes root.
    let written = if is_from_cache { write()? } else { as_writer(call.request, write)? };
    Ok(answered(call.reply.count(written)))
}

/// Appends a part of a record, with all that follows in it.
fn append(call: &Call<'_>, writer: &Writer, data: &[u8], offset: u64, how: ReadWriteFlags) -> Result<Flow, Stop> {
    let (thread, node, appended) = (call.request.pid, call.request.node, &call.view.appended);
    if let Some(bytes) = appended.take(thread, node, offset, data.len() as u64) {
        return Ok(answered(call.reply.count(bytes as u32)));
    }
    let rest = Appended::rest(thread, offset, data).unwrap_or_default();
    let record = if rest.is_empty() { Cow::Borrowed(data) } else { Cow::Owned([data, &rest].concat()) };
    let written = if call.request.is_resent() && holds(writer, &record, offset) {
        record.len()
    } else {
        as_writer(call.request, || write_all(writer, &record, offset, how))? as usize
    };
    if written > data.len() {
        appended.note(thread, node, offset + data.len() as u64, (written - data.len()) as u64);
    }
    Ok(answered(call.reply.count(written.min(data.len()) as u32)))
}

/// FALLOCATE.
pub(super) fn allocate(call: &Call<'_>, offset: u64, bytes: u64, mode: u32) -> Result<Flow, Stop> {
    let writer = passthrough_writer(call)?;
    as_writer(call.request, || fallocate(&*writer.fd, FallocateFlags::from_bits_retain(mode), offset, bytes))?;
    Ok(answered(call.reply.ok()))
}

/// SETLK and SETLKW. Who has a lock sees what others have changed before, other jobs included: the source file serves
/// the path.
pub(super) fn lock(call: &Call<'_>, lock: Lock, waits: bool) -> Result<Flow, Stop> {
    if lock.kind != LockKind::Unlock && call.view.has_source {
        make_passthrough(call, &path_of(call)?, false)?;
    }
    Ok(locks::serve(call, lock, if waits { Action::Wait } else { Action::Try }))
}

/// FSYNC. A file that was not changed needs none.
pub(super) fn sync(call: &Call<'_>, data_only: bool) -> Result<Flow, Stop> {
    let path = path_of(call)?;
    if !call.view.is_passthrough(&path, false) {
        return Ok(answered(call.reply.ok()));
    }
    let file = match call.view.source_files.files.writer(call.request.node) {
        Some(writer) => writer.fd,
        None => reader(call, &path)?,
    };
    flush(call, &*file, data_only)
}

/// FSYNCDIR.
pub(super) fn sync_directory(call: &Call<'_>, data_only: bool) -> Result<Flow, Stop> {
    let target = target_of(call, &path_of(call)?)?;
    let directory = as_either(call.request, || target.open(OFlags::RDONLY | OFlags::DIRECTORY))?;
    flush(call, &directory, data_only)
}

fn flush(call: &Call<'_>, file: impl AsFd, data_only: bool) -> Result<Flow, Stop> {
    if data_only { fdatasync(file) } else { fsync(file) }?;
    Ok(answered(call.reply.ok()))
}

/// Makes the request's file passthrough, and returns a descriptor for writing to it.
fn passthrough_writer(call: &Call<'_>) -> Result<Writer, Stop> {
    let path = path_of(call)?;
    make_passthrough(call, &path, false)?;
    Ok(writer(call, &path)?)
}

/// Returns a descriptor for writing to the request's node.
pub(super) fn writer(call: &Call<'_>, path: &Path) -> Result<Writer, Errno> {
    let (node, files) = (call.request.node, &call.view.source_files.files);
    if let Some(writer) = files.writer(node) {
        return Ok(writer);
    }
    let target = target_of(call, path)?;
    check_file(target.attr.kind())?;
    let open = || match target.open(OFlags::RDWR) {
        Err(Errno::ACCESS) => target.open(OFlags::WRONLY),
        // It may be one that can only be appended to: chattr(1).
        Err(Errno::PERM) => target.open(OFlags::WRONLY | OFlags::APPEND),
        result => result,
    };
    // The caller may have received the descriptor from a process that was allowed to open the file.
    let fd = match as_caller(call.request, open) {
        Err(Errno::ACCESS | Errno::PERM) => open(),
        result => result,
    }?;
    Ok(cache_writer(call, node, &target, Arc::new(fd), true))
}

/// Caches a descriptor for writing while it is in use.
pub(super) fn cache_writer(
    call: &Call<'_>,
    node: NodeId,
    target: &Target,
    fd: Arc<OwnedFd>,
    opens_again: bool,
) -> Writer {
    let writer = call.view.source_files.files.cache_writer(node, Identity::of(&target.attr), fd, opens_again);
    call.view.notices.wake();
    writer
}

/// Returns the write flags of a descriptor that was opened with `flags`.
fn how(flags: OFlags) -> ReadWriteFlags {
    let mut how = ReadWriteFlags::empty();
    if flags.contains(OFlags::APPEND) {
        // Others may have appended in between; only the file system knows the end of the file.
        how |= ReadWriteFlags::APPEND;
    }
    if flags.contains(OFlags::SYNC) {
        how |= ReadWriteFlags::SYNC;
    } else if flags.contains(OFlags::DSYNC) {
        how |= ReadWriteFlags::DSYNC;
    }
    how
}

/// Returns true if a predecessor has appended `data` at `offset` and died before it answered.
fn holds(writer: &Writer, data: &[u8], offset: u64) -> bool {
    let mut found = vec![0; data.len()];
    matches!(pread(&*writer.fd, &mut found, offset), Ok(bytes) if bytes == data.len() && found == data)
}

/// Writes all of `data`, or as much as fits.
fn write_all(writer: &Writer, data: &[u8], offset: u64, how: ReadWriteFlags) -> Result<u32, Errno> {
    let mut written = 0;
    while written < data.len() {
        match pwritev2(&*writer.fd, &[IoSlice::new(&data[written..])], offset + written as u64, how) {
            Ok(0) => break,
            Ok(bytes) => written += bytes,
            Err(Errno::INTR) => {}
            Err(_) if written > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(written as u32)
}
