//! Making, linking, renaming and removing names.
//!
//! A predecessor may have died between a change and its answer. The kernel then resends the request with a flag: the
//! change may be done already.

use headwater_abi::{Kind, Path};
use headwater_fuse::{NodeId, Operation};
use rustix::fs::{
    AtFlags, CWD, Dev, FileType, Mode, OFlags, RenameFlags, linkat, makedev, mkdirat, mknodat, openat, renameat_with,
    symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::content::cache_writer;
use super::emptiness::{has_names, remove_when_empty};
use super::passthrough::{Stop, make_all_passthrough, make_passthrough, path_of};
use crate::call::{Call, Flow, answered};
use crate::caller::{as_caller, as_maker};
use crate::nodes::is_unseen;
use crate::source_file::{Identity, Target, made_entry, may_want_record};
use crate::state::notices::Notice;

/// Mode bits that a caller chooses for a new file.
const MODE_BITS: u32 = 0o7777;

/// A name that is to be changed: its path and its directory.
struct Location {
    path: Path,
    directory: Target,
}

/// CREATE: makes the file, or opens it if it was made in between and the caller allows that.
pub(super) fn create(call: &Call<'_>, name: &[u8], flags: u32, mode: u32, umask: u32) -> Result<Flow, Stop> {
    let at = locate_new(call, name)?;
    let wanted = OFlags::from_bits_retain(flags);
    let fixed = OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = fixed | wanted & (OFlags::EXCL | OFlags::TRUNC);
    let open = |access: OFlags| {
        let made = Mode::from_raw_mode(mode & MODE_BITS);
        as_maker(call.request, umask, || openat(&at.directory.fd, name, flags | access, made))
    };
    let (file, writes) = match open(OFlags::RDWR) {
        // The predecessor made it before it died.
        Err(Errno::EXIST) if call.request.is_resent() => {
            let open = || openat(&at.directory.fd, name, (fixed - OFlags::CREATE) | OFlags::RDWR, Mode::empty());
            (as_caller(call.request, open)?, true)
        }
        // The file exists, and the caller needs fewer rights.
        Err(Errno::ACCESS) => (open(wanted & OFlags::RWMODE)?, wanted.intersects(OFlags::WRONLY | OFlags::RDWR)),
        // STALE makes the kernel look the name up again.
        Err(Errno::LOOP | Errno::NXIO | Errno::ISDIR) => return Err(Errno::STALE.into()),
        result => (result?, true),
    };
    let target = Target::opened(file)?;
    if target.attr.kind() != Kind::File {
        return Err(Errno::STALE.into());
    }
    let entry = made_entry(call, &at.path, &target)?;
    if let Some(node) = entry.node.filter(|_| writes) {
        // The creator may write to it even if its mode forbids later openings.
        let opens_again = target.attr.mode & 0o600 == 0o600;
        cache_writer(call, node, &target, target.fd.clone(), opens_again);
    }
    if call.reply.create(&entry, 0, 0).is_err()
        && let Some(node) = entry.node
    {
        call.view.release(node, 1);
    }
    Ok(Flow::Answered)
}

/// MKNOD.
pub(super) fn mknod(call: &Call<'_>, name: &[u8], mode: u32, rdev: u32, umask: u32) -> Result<Flow, Stop> {
    make(call, name, Some(umask), |directory| {
        let file_type = FileType::from_raw_mode(mode);
        mknodat(&directory.fd, name, file_type, Mode::from_raw_mode(mode & MODE_BITS), device(rdev))
    })
}

/// MKDIR.
pub(super) fn mkdir(call: &Call<'_>, name: &[u8], mode: u32, umask: u32) -> Result<Flow, Stop> {
    make(call, name, Some(umask), |directory| mkdirat(&directory.fd, name, Mode::from_raw_mode(mode & MODE_BITS)))
}

/// SYMLINK.
pub(super) fn symlink(call: &Call<'_>, name: &[u8], target: &[u8]) -> Result<Flow, Stop> {
    make(call, name, None, |directory| symlinkat(target, &directory.fd, name))
}

/// LINK: adds a name to `existing`. All of its names lead to the same node.
pub(super) fn link(call: &Call<'_>, existing: NodeId, name: &[u8]) -> Result<Flow, Stop> {
    let view = call.view;
    let path = view.path_of(existing).ok_or(Errno::STALE)?;
    make_passthrough(call, &path, false)?;
    let source = Target::of(view, existing, &path)?;
    view.source_files.settle(existing, &path, Identity::of(&source.attr));
    make(call, name, None, |directory| linkat(CWD, source.magic_link(), &directory.fd, name, AtFlags::SYMLINK_FOLLOW))
}

/// UNLINK and RMDIR. Processes that have the file open continue to use it.
pub(super) fn remove(call: &Call<'_>, name: &[u8], is_directory: bool) -> Result<Flow, Stop> {
    let at = locate(call, call.request.node, name)?;
    // What fails makes no path passthrough.
    if is_directory && at.directory.child(name).is_ok_and(|directory| has_names(&directory)) {
        return Err(Errno::NOTEMPTY.into());
    }
    make_passthrough(call, &at.path, is_directory)?;
    let doomed = at.directory.child(name);
    if call.request.is_resent() && matches!(doomed, Err(Errno::NOENT)) {
        return Ok(answered(call.reply.ok()));
    }
    let how = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    let remove = || as_caller(call.request, || unlinkat(&at.directory.fd, name, how));
    match (remove(), &doomed) {
        (Err(Errno::NOTEMPTY | Errno::EXIST), Ok(directory)) if is_directory => remove_when_empty(directory, remove)?,
        (result, _) => result?,
    }
    pin_lost(call, &at.path, doomed.ok().as_ref());
    Ok(answered(call.reply.ok()))
}

/// RENAME.
pub(super) fn rename(call: &Call<'_>, name: &[u8], to: NodeId, to_name: &[u8], flags: u32) -> Result<Flow, Stop> {
    let flags = RenameFlags::from_bits_retain(flags);
    let from = locate(call, call.request.node, name)?;
    let to_node = to;
    let to = locate(call, to, to_name)?;
    let replaced = to.directory.child(to_name).ok();
    let moving = match as_caller(call.request, || from.directory.child(name)) {
        Err(Errno::NOENT) if call.request.is_resent() && replaced.is_some() => return Ok(answered(call.reply.ok())),
        result => result?,
    };
    let is_directory = |target: &Target| target.attr.kind() == Kind::Dir;
    let tree = is_directory(&moving) || replaced.as_ref().is_some_and(is_directory);
    if flags.is_empty() && is_directory(&moving) && replaced.as_ref().is_some_and(has_names) {
        return Err(Errno::NOTEMPTY.into());
    }
    make_all_passthrough(call, &[&from.path, &to.path], tree)?;
    as_caller(call.request, || renameat_with(&from.directory.fd, name, &to.directory.fd, to_name, flags))?;
    expire_renamed(call, name, (to_node, to_name), flags);
    let source_files = &call.view.source_files;
    let moved = Identity::of(&moving.attr);
    match replaced.as_ref().map(|target| Identity::of(&target.attr)) {
        // Both names lead to one file, so rename() changes nothing.
        Some(other) if other == moved => {}
        Some(other) if flags.contains(RenameFlags::EXCHANGE) => {
            source_files.exchanged(&call.view.tables, (&from.path, moved), (&to.path, other));
        }
        _ => {
            pin_lost(call, &to.path, replaced.as_ref());
            source_files.moved(&call.view.tables, moved, &from.path, &to.path);
        }
    }
    Ok(answered(call.reply.ok()))
}

/// Creates an object with `work` in the request's directory, and answers with its node.
fn make(
    call: &Call<'_>,
    name: &[u8],
    umask: Option<u32>,
    work: impl Fn(&Target) -> Result<(), Errno>,
) -> Result<Flow, Stop> {
    let at = locate_new(call, name)?;
    let work = || work(&at.directory);
    let result = umask.map_or_else(|| as_caller(call.request, work), |mask| as_maker(call.request, mask, work));
    match result {
        Err(Errno::EXIST) if call.request.is_resent() => {}
        result => result?,
    }
    let target = at.directory.child(name)?;
    let entry = made_entry(call, &at.path, &target)?;
    Ok(call.answer_entry(&entry))
}

/// Prepares a name for creation: makes its path passthrough and ensures that it can get a node. No node knows anything
/// below a new directory, so all below it becomes passthrough, and what is made there need not be announced.
fn locate_new(call: &Call<'_>, name: &[u8]) -> Result<Location, Stop> {
    let at = locate(call, call.request.node, name)?;
    let is_directory = matches!(call.request.operation, Operation::Mkdir { .. });
    make_passthrough(call, &at.path, is_directory && is_unseen(call.view, &at.path))?;
    match call.view.source_files.wanted_for(&call.view.tables, &at.path) {
        Some(record) if may_want_record(call) => Err(Stop::Flow(call.want_record(&record))),
        Some(_) => {
            call.view.source_files.note_full_table();
            Ok(at)
        }
        None => Ok(at),
    }
}

fn locate(call: &Call<'_>, directory: NodeId, name: &[u8]) -> Result<Location, Stop> {
    let parent = if directory == call.request.node {
        path_of(call)?
    } else {
        call.view.path_of(directory).ok_or(Errno::STALE)?
    };
    let path = parent.join_deep(name).ok_or(Errno::NAMETOOLONG)?;
    if call.view.is_hidden(&path) {
        return Err(Errno::BUSY.into());
    }
    Ok(Location { path, directory: Target::directory(call.view, directory, &parent)? })
}

/// Has the kernel look up what was renamed when it is next used: with the new name it keeps for how long the old one was
/// known, and changes of either are not announced any more.
fn expire_renamed(call: &Call<'_>, name: &[u8], to: (NodeId, &[u8]), flags: RenameFlags) {
    call.view.notices.send(Notice::NameChanged(to.0, to.1.into()));
    if flags.contains(RenameFlags::EXCHANGE) {
        call.view.notices.send(Notice::NameChanged(call.request.node, name.into()));
    }
}

/// Pins a file that has lost its name at `path` for the processes that use it.
fn pin_lost(call: &Call<'_>, path: &Path, lost: Option<&Target>) {
    let Some(lost) = lost else { return };
    let identity = Identity::of(&lost.attr);
    if let Some(node) = call.view.source_files.used(&call.view.tables, path, identity) {
        call.view.source_files.pin(node, path, identity, lost.fd.clone());
    }
}

/// Decodes a device number of the kernel's `new_encode_dev`.
fn device(rdev: u32) -> Dev {
    makedev((rdev >> 8) & 0xfff, (rdev & 0xff) | ((rdev >> 12) & 0xfff00))
}
