//! Serves requests from the source files: outside of the scope, on passthrough paths, and if the node can't help.
//! Errors are those of the source file.

mod files;
pub(crate) mod identity;
mod journal;
pub(crate) mod kept;
mod listing;
pub(crate) mod locks;
pub(crate) mod node_files;
pub(crate) mod polls;
pub(crate) mod served;
mod target;
pub(crate) mod unread;

use std::cell::RefCell;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use headwater_abi::table::State;
use headwater_abi::{Attr, Kind, Path};
use headwater_fuse::init::Opening;
use headwater_fuse::reply::{FOREVER, open_flag};
use headwater_fuse::{Entry, Operation};
use headwater_store::{ATTR_FIELDS, attr_at};
use rustix::fs::{Mode, OFlags, SeekFrom, readlinkat};
use rustix::io::{Errno, pread};

#[cfg(fuzzing)]
pub use self::journal::fuzz as fuzz_journal;

pub(super) use self::files::Writer;
pub(crate) use self::identity::Identity;
pub(super) use self::target::Target;
use self::unread::{ATTRIBUTES_ALONE, replaced};
use crate::call::{Call, Flow, answered};
use crate::caller::as_either;
use crate::view::View;

/// The least time for which the kernel caches attributes that come with a name, and directories: until the system call
/// has checked permissions. A directory that another node has moved meanwhile answers ESTALE, and the kernel looks it up
/// again.
const LOOKED_UP_TTL: Duration = Duration::from_millis(1);

/// The largest extended attribute, and the longest list of them, as in linux/limits.h.
const XATTR_BYTES_MAX: u32 = 64 << 10;

/// Serves a reading request about `path`; for LOOKUP, `path` is the name that is looked up.
pub(super) fn serve(call: &Call<'_>, path: &Path) -> Flow {
    let result = match call.request.operation {
        Operation::Lookup { name } => lookup(call, path, name),
        Operation::Getattr | Operation::Statx => getattr(call, path),
        Operation::Readlink => readlink(call, path),
        Operation::Open { flags } => open(call, path, flags),
        Operation::Read { offset, bytes } => read(call, path, offset, bytes),
        Operation::Lseek { offset, whence } => seek(call, path, offset, whence),
        Operation::Opendir => opendir(call),
        Operation::Readdir { offset, bytes, plus } => listing::read(call, path, offset, bytes, plus),
        Operation::Getxattr { name, bytes } => getxattr(call, path, name, bytes),
        Operation::Listxattr { bytes } => listxattr(call, path, bytes),
        _ => return call.unsupported(),
    };
    result.unwrap_or_else(|errno| call.fail(errno))
}

/// Serves a reading request about a node without a record; returns `None` for all others.
pub(super) fn serve_unrecorded(call: &Call<'_>) -> Option<Flow> {
    let path = call.view.source_files.unrecorded(call.request.node)?;
    match call.request.operation {
        Operation::Lookup { name } => {
            Some(path.join_deep(name).map_or_else(|| call.fail(Errno::NAMETOOLONG), |path| call.use_source(&path)))
        }
        Operation::Open { flags } if flags & OFlags::ACCMODE.bits() != OFlags::RDONLY.bits() => None,
        Operation::Getattr
        | Operation::Statx
        | Operation::Readlink
        | Operation::Open { .. }
        | Operation::Read { .. }
        | Operation::Lseek { .. }
        | Operation::Opendir
        | Operation::Readdir { .. } => Some(call.use_source(&path)),
        _ => None,
    }
}

/// Opens the source file of the request's node.
pub(super) fn target_of(call: &Call<'_>, path: &Path) -> Result<Target, Errno> {
    Target::of(call.view, call.request.node, path)
}

/// Returns a name's node and attributes, counted as a look-up; or what the request waits for.
pub(super) fn entry(call: &Call<'_>, path: &Path, target: &Target) -> Result<Entry, Flow> {
    let entry = try_entry(call, path, target, !may_want_record(call)).map_err(|path| call.want_record(&path))?;
    if !call.may_ask() && entry.node.is_some_and(|node| call.view.source_files.unrecorded(node).is_some()) {
        call.view.source_files.note_full_table();
    }
    Ok(entry)
}

/// As [`entry`], for a file that was just created: the request can't be repeated.
pub(super) fn made_entry(call: &Call<'_>, path: &Path, target: &Target) -> Result<Entry, Errno> {
    try_entry(call, path, target, true).map_err(|_| Errno::NFILE)
}

fn try_entry(call: &Call<'_>, path: &Path, target: &Target, is_last: bool) -> Result<Entry, Path> {
    let view = call.view;
    let node = view.source_files.claim(&view.tables, path, &target.attr, is_last)?;
    let identity = Identity::of(&target.attr);
    view.source_files.files.confirm(node, identity);
    view.source_files.set_anchor(node, identity, &target.fd);
    let ttl = call.source_ttl(path);
    let entry_ttl = ttl_of(ttl, &target.attr);
    Ok(Entry { node: Some(node), attr: shown(view, path, target), entry_ttl, attr_ttl: ttl.max(LOOKED_UP_TTL) })
}

/// Returns how long the kernel caches an object's name and attributes.
fn ttl_of(ttl: Duration, attr: &Attr) -> Duration {
    if attr.kind() == Kind::Dir { ttl.max(LOOKED_UP_TTL) } else { ttl }
}

/// Returns false if the request must do without a record.
pub(super) fn may_want_record(call: &Call<'_>) -> bool {
    call.may_ask() && (call.attempt.rounds == 0 || !call.view.source_files.lacks_records())
}

/// Returns the attributes that the mount shows: the size of a link is that of its target as shown.
pub(super) fn shown(view: &View, path: &Path, target: &Target) -> Attr {
    let mut attr = view.shown(path, &target.attr);
    if view.config.keeps_links_inside
        && attr.kind() == Kind::Link
        && let Ok(link) = readlinkat(&target.fd, b"".as_slice(), Vec::new())
    {
        attr.size = view.shown_target(path, link.as_bytes()).len() as u64;
    }
    attr
}

/// Returns a descriptor for reading the source file.
pub(super) fn reader(call: &Call<'_>, path: &Path) -> Result<Arc<OwnedFd>, Errno> {
    let node = call.request.node;
    if let Some(fd) = call.view.source_files.files.reader(node) {
        return Ok(fd);
    }
    let target = match target_of(call, path) {
        Err(errno) => match unread::adopt(call, path) {
            Some(target) => target,
            None => return replaced(call, path).and_then(|(_, identity)| copy(call, path, identity)).ok_or(errno),
        },
        Ok(target) => target,
    };
    // Opening anything else could block or have effects.
    check_file(target.attr.kind())?;
    let fd = as_either(call.request, || target.open(OFlags::RDONLY))?;
    let fd = call.view.source_files.files.cache_reader(node, Identity::of(&target.attr), fd);
    call.view.notices.wake();
    Ok(fd)
}

/// Fails unless an object of this kind can be read and written.
pub(super) fn check_file(kind: Kind) -> Result<(), Errno> {
    match kind {
        Kind::File => Ok(()),
        Kind::Dir => Err(Errno::ISDIR),
        _ => Err(Errno::INVAL),
    }
}

/// Returns the source file at `path` if it still has the snapshot's attributes.
pub(super) fn unchanged(call: &Call<'_>, path: &Path, known: &Attr) -> Option<Arc<OwnedFd>> {
    let file = reader(call, path).ok()?;
    let now = attr_at(&file, b"", ATTR_FIELDS).ok()?;
    polls::is_same_version(&now, known).then_some(file)
}

/// Returns the store's copy of a file that has been replaced.
fn copy(call: &Call<'_>, path: &Path, identity: Identity) -> Option<Arc<OwnedFd>> {
    let (view, node) = (call.view, call.request.node);
    view.tables.read(|reader| reader.record(node.0).filter(|record| record.state.contains(State::WHOLE)))?;
    let file =
        rustix::fs::open(view.contents.path(node, path), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    Some(view.source_files.files.cache_reader(node, identity, file))
}

fn lookup(call: &Call<'_>, path: &Path, name: &[u8]) -> Result<Flow, Errno> {
    let parent = path.parent().ok_or(Errno::INVAL)?;
    let directory = call.view.path_of(call.request.node).unwrap_or(parent);
    let found = Target::directory(call.view, call.request.node, &directory);
    let found = found.and_then(|directory| as_either(call.request, || directory.child(name)));
    let target = match found {
        Err(Errno::NOENT) => return Ok(absent(call, path)),
        result => result?,
    };
    Ok(match entry(call, path, &target) {
        Ok(mut entry) => {
            let is_outdated = |node| call.view.source_files.kept.are_outdated(node, &target.attr);
            if target.attr.kind() == Kind::File && entry.node.is_some_and(is_outdated) {
                kept::drop_pages(&mut entry);
            }
            call.answer_entry(&entry)
        }
        Err(flow) => flow,
    })
}

fn absent(call: &Call<'_>, path: &Path) -> Flow {
    let ttl = call.source_ttl(path);
    if ttl.is_zero() {
        return call.fail(Errno::NOENT);
    }
    call.answer_entry(&Entry { node: None, attr: Attr::default(), entry_ttl: ttl, attr_ttl: ttl })
}

fn getattr(call: &Call<'_>, path: &Path) -> Result<Flow, Errno> {
    let (attr, ttl) = match target_of(call, path) {
        Ok(target) => {
            call.view.source_files.files.confirm(call.request.node, Identity::of(&target.attr));
            (shown(call.view, path, &target), ttl_of(call.source_ttl(path), &target.attr))
        }
        Err(errno) => match unread::successor(call, path) {
            Some(target) => (shown(call.view, path, &target), call.source_ttl(path)),
            None => (call.view.shown(path, &replaced(call, path).ok_or(errno)?.0), FOREVER),
        },
    };
    Ok(call.answer_attr(&attr, ttl))
}

fn readlink(call: &Call<'_>, path: &Path) -> Result<Flow, Errno> {
    let target = target_of(call, path)?;
    if target.attr.kind() != Kind::Link {
        return Err(Errno::INVAL);
    }
    let link = readlinkat(&target.fd, b"".as_slice(), Vec::new())?;
    Ok(answered(call.reply.data(&call.view.shown_target(path, link.as_bytes()))))
}

fn open(call: &Call<'_>, path: &Path, flags: u32) -> Result<Flow, Errno> {
    if call.view.config.opening == Opening::None {
        return Ok(call.unsupported());
    }
    // A file that is only executed need not be readable.
    if flags & OFlags::ACCMODE.bits() == OFlags::RDONLY.bits() {
        match reader(call, path) {
            Err(Errno::ACCESS | Errno::PERM) | Ok(_) => {}
            Err(errno) => return Err(errno),
        }
    }
    // While a node has passthrough openings, the kernel accepts no opening that uses its own pages.
    let passes = call.view.tables.read(|reader| reader.record(call.request.node.0).is_some_and(|r| r.passing().1 > 0));
    let pages = if passes { open_flag::DIRECT_IO } else { open_flag::KEEP_CACHE };
    Ok(answered(call.reply.open(0, pages | open_flag::NOFLUSH, None)))
}

fn opendir(call: &Call<'_>) -> Result<Flow, Errno> {
    if call.view.config.opening == Opening::None {
        return Ok(call.unsupported());
    }
    Ok(answered(call.reply.open(0, 0, None)))
}

fn read(call: &Call<'_>, path: &Path, offset: u64, bytes: u32) -> Result<Flow, Errno> {
    thread_local! {
        static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    BUFFER.with_borrow_mut(|buffer| {
        let bytes = bytes.min(call.view.config.negotiated.transfer_bytes_max) as usize;
        if buffer.len() < bytes {
            buffer.resize(bytes, 0);
        }
        let buffer = &mut buffer[..bytes];
        let mut file = reader(call, path)?;
        call.view.source_files.kept.supplied(call.request.node);
        let filled = match read_full(&file, buffer, offset) {
            Err(Errno::STALE) => {
                // The server has dropped the descriptor's file handle; the name may still lead to the file.
                call.view.source_files.files.close(call.request.node);
                file = reader(call, path)?;
                read_full(&file, buffer, offset)?
            }
            result => result?,
        };
        // The source file has replaced the snapshot's, perhaps with another size. A short answer reveals that it is
        // shorter; to read a longer one to its end, the kernel needs the new size first.
        if let Some(known) = call.view.tables.read(|reader| reader.record(call.request.node.0)?.attr())
            && !unread::notify_size(call, path, &file, known.size)
            && call.attempt.rounds > 0
            && known.size < offset + filled as u64
        {
            let _ = call.reply.device.invalidate_node(call.request.node, ATTRIBUTES_ALONE, 0);
        }
        Ok(answered(call.reply.data(&buffer[..filled])))
    })
}

/// Reads until `buffer` is full or the file ends.
pub(super) fn read_full(file: impl AsFd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < buffer.len() {
        match pread(&file, &mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(Errno::INTR) => {}
            // The bytes before the error are returned; the next call returns the error.
            Err(_) if filled > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(filled)
}

fn seek(call: &Call<'_>, path: &Path, offset: u64, whence: u32) -> Result<Flow, Errno> {
    let to = match whence as i32 {
        libc::SEEK_DATA => SeekFrom::Data(offset),
        libc::SEEK_HOLE => SeekFrom::Hole(offset),
        _ => return Err(Errno::INVAL),
    };
    // Reads pass their own offsets, so the descriptor's offset is free.
    let offset = rustix::fs::seek(&*reader(call, path)?, to)?;
    Ok(answered(call.reply.offset(offset)))
}

fn getxattr(call: &Call<'_>, path: &Path, name: &[u8], bytes: u32) -> Result<Flow, Errno> {
    let link = target_of(call, path)?;
    if bytes == 0 {
        let size = as_either(call.request, || rustix::fs::getxattr_query(link.magic_link(), name))?;
        return Ok(answered(call.reply.count(size as u32)));
    }
    let value = as_either(call.request, || {
        let mut value = vec![0; bytes.min(XATTR_BYTES_MAX) as usize];
        let size = rustix::fs::getxattr(link.magic_link(), name, &mut value[..])?;
        value.truncate(size);
        Ok(value)
    })?;
    Ok(answered(call.reply.data(&value)))
}

fn listxattr(call: &Call<'_>, path: &Path, bytes: u32) -> Result<Flow, Errno> {
    let target = target_of(call, path)?;
    if bytes == 0 {
        let size = rustix::fs::listxattr_query(target.magic_link())?;
        return Ok(answered(call.reply.count(size as u32)));
    }
    let mut names = vec![0; bytes.min(XATTR_BYTES_MAX) as usize];
    let size = rustix::fs::listxattr(target.magic_link(), &mut names[..])?;
    Ok(answered(call.reply.data(&names[..size])))
}
