//! Files' content, from the store's copies.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use headwater_abi::table::State;
use headwater_abi::wire::BLOCK_BYTES;
use headwater_abi::{Attr, Kind, Path, Want};
use headwater_fuse::NodeId;
use headwater_fuse::init::Opening;
use headwater_fuse::reply::open_flag;
use headwater_store::{Partial, Residency};
use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::call::{Call, Demand, Flow, answered};
use crate::nodes::{attr_of, visible};
use crate::source_file::{self, check_file, read_full};
use crate::view::Known;

/// The least bytes that are passed on by reference: for fewer, a copy is cheaper.
const PASSED_BYTES_MIN: usize = 64 << 10;

/// OPEN for reading.
pub(crate) fn open(call: &Call<'_>) -> Result<Flow, Flow> {
    let known = visible(call, Errno::ISDIR)?;
    if call.view.config.opening == Opening::Passthrough {
        return Ok(open_passing(call, &known));
    }
    Ok(answered(call.reply.open(0, open_flag::KEEP_CACHE | open_flag::NOFLUSH, None)))
}

/// RELEASE: `handle` is the node's number for passthrough openings, otherwise 0.
pub(crate) fn release(call: &Call<'_>, handle: u64) -> Flow {
    if handle != 0
        && let Some(known) = call.view.known(NodeId(handle))
    {
        let _changing = call.view.contents.passing();
        closed(call, &known);
    }
    answered(call.reply.ok())
}

/// READ.
pub(crate) fn read(call: &Call<'_>, offset: u64, bytes: u32) -> Result<Flow, Flow> {
    let (known, attr) = file(call)?;
    let bytes = u64::from(bytes).min(attr.size.saturating_sub(offset)) as usize;
    if bytes == 0 {
        return Ok(answered(call.reply.data(&[])));
    }
    let source = source(call, &known, &attr, offset, bytes)?;
    if !pass_on(call, &source, offset, bytes) && !copy(call, &source, offset, bytes) {
        // A copy that is shorter than its source file was damaged from outside.
        return Ok(call.use_source(&known.path));
    }
    call.tally.bytes(bytes);
    Ok(Flow::Answered)
}

/// Answers with these bytes by reference, if they are many. Returns false if there was no answer.
fn pass_on(call: &Call<'_>, source: &Source, offset: u64, bytes: usize) -> bool {
    let contents = &call.view.contents;
    let pipe = (bytes >= PASSED_BYTES_MIN).then(|| contents.take_pipe()).flatten();
    let passed = pipe.and_then(|pipe| call.reply.content(pipe, source.as_fd(), offset, bytes));
    let is_answered = passed.is_some();
    passed.into_iter().for_each(|pipe| contents.return_pipe(pipe));
    is_answered
}

/// Answers with these bytes through a buffer. Returns false if there was no answer.
fn copy(call: &Call<'_>, source: &Source, offset: u64, bytes: usize) -> bool {
    let mut buffer = call.view.contents.take_buffer(bytes);
    let is_read = read_full(source, &mut buffer[..bytes], offset) == Ok(bytes);
    if is_read {
        let _ = answered(call.reply.data(&buffer[..bytes]));
    }
    call.view.contents.return_buffer(buffer);
    is_read
}

/// LSEEK, which the kernel sends only for SEEK_DATA and SEEK_HOLE.
pub(crate) fn seek(call: &Call<'_>, offset: u64, whence: u32) -> Result<Flow, Flow> {
    let (known, attr) = file(call)?;
    let (position, all_is_data) = match whence as i32 {
        libc::SEEK_DATA => (SeekFrom::Data(offset), offset),
        libc::SEEK_HOLE => (SeekFrom::Hole(offset), attr.size),
        _ => return Err(call.fail(Errno::INVAL)),
    };
    if offset >= attr.size {
        return Err(call.fail(Errno::NXIO));
    }
    // The holes of a copy can differ from those of the source file, which is asked if it is unchanged.
    let has_holes = attr.blocks < attr.size / 512 && call.view.has_source;
    if has_holes && call.attempt.at_once {
        return Err(Flow::Ask(Demand::BlockingThread));
    }
    let source = if has_holes { source_file::unchanged(call, &known.path, &attr) } else { None };
    let found = source.map_or(Ok(all_is_data), |source| rustix::fs::seek(source, position));
    Ok(answered(call.reply.offset(found.map_err(|errno| call.fail(errno))?)))
}

/// The file that a read uses.
enum Source {
    /// The complete copy.
    Whole(Arc<OwnedFd>),
    /// The sparse copy of a file that is fetched in blocks.
    Blocks(Arc<Partial>),
    /// The source file, of which no content is stored.
    Direct(Arc<OwnedFd>),
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Source::Whole(file) | Source::Direct(file) => file.as_fd(),
            Source::Blocks(partial) => partial.copy().as_fd(),
        }
    }
}

/// Returns the copy that has these bytes, at least one, or what to fetch first.
fn source(call: &Call<'_>, known: &Known, attr: &Attr, offset: u64, bytes: usize) -> Result<Source, Flow> {
    let (view, path) = (call.view, &known.path);
    let is_large = attr.size > view.whole_file_bytes_max;
    let block_of = |offset: u64| u32::try_from(offset / BLOCK_BYTES).unwrap_or(u32::MAX);
    if known.record.state.contains(State::WHOLE) {
        let is_all = bytes as u64 == attr.size;
        let copy = view.contents.copy(known.node, path, !is_all).map_err(|errno| match errno {
            Errno::NOENT if is_large => call.want_block(path, block_of(offset)),
            errno => missing(call, path, errno),
        })?;
        if view.blocks.take_mark(path) {
            call.used.borrow_mut().push((path.clone(), None));
        }
        return Ok(Source::Whole(copy));
    }
    let last = block_of(offset + bytes as u64 - 1);
    let is_stored = view.stored.includes(path, attr);
    if !is_stored || known.record.state.contains(State::DIRECT) {
        if call.attempt.at_once {
            return Err(Flow::Ask(Demand::BlockingThread));
        }
        if let Some(file) = source_file::unchanged(call, path, attr) {
            call.tally.used_source();
            view.blocks.note_direct(path, block_of(offset)..=last);
            return Ok(Source::Direct(file));
        }
        if !is_stored {
            return Err(call.want(path, Want::PASSTHROUGH));
        }
    }
    if !is_large {
        return Err(call.want(path, Want::WHOLE));
    }
    let mut source = Err(call);
    for block in block_of(offset)..=last {
        let partial = match view.blocks.get(path, block) {
            Residency::Absent => return Err(call.want_block(path, block)),
            Residency::Marked(partial) => {
                call.used.borrow_mut().push((path.clone(), Some(block)));
                partial
            }
            Residency::Resident(partial) => partial,
        };
        source = Ok(Source::Blocks(partial));
    }
    source.map_err(|call| call.want_block(path, last))
}

/// Returns the request's node as a file of the snapshot, with its attributes.
fn file(call: &Call<'_>) -> Result<(Known, Attr), Flow> {
    let known = visible(call, Errno::ISDIR)?;
    let attr = attr_of(call, &known)?;
    check_file(known.record.kind).map_err(|errno| call.fail(errno))?;
    Ok((known, attr))
}

fn open_passing(call: &Call<'_>, known: &Known) -> Flow {
    let attr = known.record.attr().filter(|_| known.record.kind == Kind::File);
    // Without a complete copy it can't be opened passthrough, now or later: the kernel does not mix both openings of
    // one file.
    if attr.is_none_or(|attr| {
        let is_stored = call.view.stored.includes(&known.path, &attr);
        attr.size == 0 || attr.size > call.view.whole_file_bytes_max || !is_stored
    }) {
        return answered(call.reply.open(0, open_flag::KEEP_CACHE | open_flag::NOFLUSH, None));
    }
    if !known.record.state.contains(State::WHOLE) {
        return call.want(&known.path, Want::WHOLE);
    }
    let mut has_failed = call.view.contents.passing();
    let (mut backing, opened) = known.record.passing();
    if opened == 0 && *has_failed {
        return answered(call.reply.open(0, open_flag::KEEP_CACHE | open_flag::NOFLUSH, None));
    }
    if opened == 0 {
        let copy = match call.view.contents.copy(known.node, &known.path, false) {
            Ok(copy) => copy,
            Err(errno) => return missing(call, &known.path, errno),
        };
        match call.reply.device.open_backing(copy.as_fd()) {
            Ok(number) => backing = number,
            Err(error) => {
                *has_failed = true;
                tracing::debug!(%error, "no more files are opened passthrough");
                return answered(call.reply.open(0, open_flag::KEEP_CACHE | open_flag::NOFLUSH, None));
            }
        }
    }
    known.record.set_passing(backing, opened.saturating_add(1));
    if call.reply.open(known.node.0, open_flag::PASSTHROUGH | open_flag::NOFLUSH, Some(backing)).is_err() {
        closed(call, known);
    }
    Flow::Answered
}

/// Counts a closed passthrough opening; the last one releases the kernel's backing file.
fn closed(call: &Call<'_>, known: &Known) {
    let (backing, opened) = known.record.passing();
    known.record.set_passing(backing, opened.saturating_sub(1));
    if opened == 1 {
        let _ = call.reply.device.close_backing(backing);
    }
}

/// Handles a copy that can't be opened: it was just evicted, or too many files are open.
fn missing(call: &Call<'_>, path: &Path, errno: Errno) -> Flow {
    if errno == Errno::NOENT { call.want(path, Want::WHOLE) } else { call.use_source(path) }
}
