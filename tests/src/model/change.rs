//! Changes by system calls.

use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps, XattrFlags, chmod,
    fallocate, ftruncate, linkat, lremovexattr, lsetxattr, mkdirat, mknodat, open, renameat, renameat_with, symlinkat,
    unlinkat, utimensat,
};
use rustix::io::{Errno, pread, pwrite, write};

use super::Content;
use super::content::digest;
use super::operation::{Change, Operation};
use super::tree::below;

/// Makes one change below `root`.
pub(super) fn execute(root: &Path, operation: &Operation, change: &Change) -> Result<String, Errno> {
    let path = &below(root, &operation.path);
    match change {
        Change::Create { mode, is_exclusive } => {
            let flags = OFlags::CREATE | if *is_exclusive { OFlags::EXCL } else { OFlags::empty() };
            open_to_write(path, flags, *mode)?;
        }
        Change::Write { offset, content } => {
            let file = open_to_write(path, OFlags::empty(), 0)?;
            return put(|bytes, at| pwrite(&file, bytes, offset + at), content);
        }
        Change::Append { content } => {
            let file = open_to_write(path, OFlags::APPEND, 0)?;
            return put(|bytes, _| write(&file, bytes), content);
        }
        Change::Replace { content } => {
            let file = open_to_write(path, OFlags::TRUNC, 0)?;
            return put(|bytes, _| write(&file, bytes), content);
        }
        Change::Truncate { size } => {
            ftruncate(open_to_write(path, OFlags::empty(), 0)?, *size)?;
        }
        Change::Allocate { offset, bytes } => {
            let file = open_to_write(path, OFlags::empty(), 0)?;
            fallocate(file, FallocateFlags::empty(), *offset, *bytes)?;
        }
        Change::UnlinkedWhileOpen { content } => return unlinked_while_open(path, content),
        of_names => {
            let other = below(root, &operation.other);
            execute_on_names(path, &other, &operation.other, of_names)?;
        }
    }
    Ok("done".into())
}

fn execute_on_names(path: &Path, other: &Path, target: &[u8], change: &Change) -> Result<(), Errno> {
    match change {
        Change::Mkdir { mode } => mkdirat(CWD, path, Mode::from_raw_mode(*mode))?,
        Change::Symlink => symlinkat(target, CWD, path)?,
        Change::Link => linkat(CWD, other, CWD, path, AtFlags::empty())?,
        Change::Mkfifo { mode } => mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(*mode), 0)?,
        Change::Unlink => unlinkat(CWD, path, AtFlags::empty())?,
        Change::Rmdir => unlinkat(CWD, path, AtFlags::REMOVEDIR)?,
        Change::Rename => renameat(CWD, path, CWD, other)?,
        Change::Exchange => renameat_with(CWD, path, CWD, other, RenameFlags::EXCHANGE)?,
        Change::Chmod { mode } => chmod(path, Mode::from_raw_mode(*mode))?,
        Change::Times { seconds, nanoseconds } => {
            let time = Timespec { tv_sec: *seconds, tv_nsec: i64::from(*nanoseconds) };
            let times = Timestamps { last_access: time, last_modification: time };
            utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Change::SetXattr { name, value } => {
            lsetxattr(path, format!("user.{name}"), value, XattrFlags::empty())?;
        }
        Change::RemoveXattr { name } => lremovexattr(path, format!("user.{name}"))?,
        _ => unreachable!("a change of content"),
    }
    Ok(())
}

fn open_to_write(path: &Path, flags: OFlags, mode: u32) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    open(path, flags, Mode::from_raw_mode(mode))
}

/// Passes all bytes to `write` (bytes, offset), which may take fewer at a time.
fn put(write: impl Fn(&[u8], u64) -> Result<usize, Errno>, content: &Content) -> Result<String, Errno> {
    let bytes = content.read(0, content.size());
    let mut done = 0;
    while done < bytes.len() {
        done += write(&bytes[done..], done as u64)?;
    }
    Ok(format!("wrote {done}"))
}

fn unlinked_while_open(path: &Path, content: &Content) -> Result<String, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::from_raw_mode(0o600))?;
    put(|bytes, at| pwrite(&file, bytes, at), content)?;
    unlinkat(CWD, path, AtFlags::empty())?;
    let mut bytes = vec![0; content.size() as usize + 1];
    let count = pread(&file, &mut bytes, 0)?;
    Ok(digest(&bytes[..count]))
}
