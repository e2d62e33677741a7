//! Listings of directories that are served from the source.
//!
//! There are no handles, so an offset is the source directory's own (`d_off`). Any descriptor of the directory can
//! continue there, even after names were added or removed. A listing that began with the snapshot's continues with
//! that: its offsets are marked, unlike these.

use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

use headwater_abi::{Kind, Path};
use headwater_fuse::Directory;
use headwater_store::d_type_of;
use rustix::fs::{OFlags, RawDir, SeekFrom, seek};
use rustix::io::Errno;

use super::target::Target;
use crate::call::{Call, Flow, answered};
use crate::caller::as_either;
use crate::state::notices::Notice;

/// Threads that drop names at once: half of those that serve a mount.
const DROPPING_MAX: usize = 2;
/// Bytes of directory entries that one call reads.
const READ_BYTES: usize = 32 << 10;

/// READDIR and READDIRPLUS. Attributes of the names are not read: they could be cached only for as long as the listing
/// takes.
pub(super) fn read(call: &Call<'_>, path: &Path, offset: u64, bytes: u32, plus: bool) -> Result<Flow, Errno> {
    let target = Target::directory(call.view, call.request.node, path)?;
    if target.attr.kind() != Kind::Dir {
        return Err(Errno::NOTDIR);
    }
    let directory = as_either(call.request, || target.open(OFlags::RDONLY | OFlags::DIRECTORY))?;
    if offset != 0 {
        seek(&directory, SeekFrom::Start(offset))?;
    }
    let mut reply = Directory::new(bytes as usize, plus);
    let mut buffer = vec![MaybeUninit::uninit(); READ_BYTES.min(bytes as usize).max(READ_BYTES / 8)];
    let mut entries = RawDir::new(&directory, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = match entry {
            // Names before the error are returned; the next call returns the error.
            Err(_) if !reply.as_bytes().is_empty() => break,
            result => result?,
        };
        let (ino, next, name) = (call.view.ino_in(path, entry.ino()), entry.next_entry_cookie(), entry.file_name());
        if !reply.name(ino, next, d_type_of(entry.file_type()), name.to_bytes(), None) {
            break;
        }
    }
    if reply.as_bytes().is_empty() && !call.view.source_files.kept.is_alone() {
        drop_names(call);
    }
    Ok(answered(call.reply.data(reply.as_bytes())))
}

/// Makes the kernel drop the names that it has got so far, before the end of the listing makes them complete. It would
/// show them again until the directory's time of modification differs, and some file systems count that in seconds.
///
/// The kernel waits for a process that copies names out of such a page. Should that process in turn wait for a page of
/// the mount, another thread serves it.
fn drop_names(call: &Call<'_>) {
    let (node, dropping) = (call.request.node, &call.view.source_files.dropping);
    if dropping.fetch_add(1, Ordering::Relaxed) < DROPPING_MAX {
        let _ = call.reply.device.invalidate_node(node, 0, 0);
    } else {
        call.view.notices.send(Notice::ListingChanged(node));
    }
    dropping.fetch_sub(1, Ordering::Relaxed);
}
