//! Operations by system calls.

use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, SeekFrom, fstat, lgetxattr, llistxattr, open, readlinkat, seek, statat,
    statvfs,
};
use rustix::io::{Errno, pread, read};

use super::content::digest;
use super::line::line;
use super::operation::{Action, Operation};
use super::tree::below;
use super::{change, list};

/// The largest size of one [`Action::Read`].
const READ_BYTES_MAX: u64 = 64 << 20;

/// Executes one operation below `root` and returns its result.
pub fn execute(root: &Path, operation: &Operation) -> String {
    let path = &below(root, &operation.path);
    line(match &operation.action {
        Action::Stat { follows } => stat(path, *follows),
        Action::Identity => identity(path),
        Action::Readlink => readlink(path),
        Action::Read { offset, bytes } => read_at(path, *offset, *bytes),
        Action::ReadAll { piece } => read_all(path, *piece),
        Action::Open { flags } => open_with(path, *flags),
        Action::List => list::list(path),
        Action::ListInParts { part } => list::list_in_parts(path, *part),
        Action::Seek { offset } => seek_data(path, *offset),
        Action::Access { mode } => access(path, *mode),
        Action::Xattrs => xattrs(path),
        Action::Filesystem => filesystem(path),
        Action::Change(change) => change::execute(root, operation, change),
    })
}

fn stat(path: &Path, follows: bool) -> Result<String, Errno> {
    let stat = statat(CWD, path, if follows { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW })?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    // Directories have the sizes and link counts that their file systems like.
    let (size, links) = if kind == FileType::Directory { (0, 0) } else { (stat.st_size, stat.st_nlink) };
    Ok(format!(
        "{kind:?} {:o} links {links} of {}:{} device {:x} size {size} changed {}.{:09}",
        stat.st_mode & 0o7777,
        stat.st_uid,
        stat.st_gid,
        stat.st_rdev,
        stat.st_mtime,
        stat.st_mtime_nsec
    ))
}

fn identity(path: &Path) -> Result<String, Errno> {
    let stat = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(format!(
        "{} links {} size {} blocks {} of {} ctime {}.{:09}",
        stat.st_ino, stat.st_nlink, stat.st_size, stat.st_blocks, stat.st_blksize, stat.st_ctime, stat.st_ctime_nsec
    ))
}

fn readlink(path: &Path) -> Result<String, Errno> {
    let target = readlinkat(CWD, path, Vec::new())?;
    Ok(target.to_bytes().escape_ascii().to_string())
}

/// An open file that is a file: what would wait, or would do something, is not opened.
fn open_file(path: &Path) -> Result<rustix::fd::OwnedFd, Errno> {
    open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
}

fn read_at(path: &Path, offset: u64, bytes: u64) -> Result<String, Errno> {
    let file = open_file(path)?;
    let mut buffer = vec![0; bytes.min(READ_BYTES_MAX) as usize];
    let mut got = 0;
    while got < buffer.len() {
        match pread(&file, &mut buffer[got..], offset + got as u64)? {
            0 => break,
            count => got += count,
        }
    }
    Ok(digest(&buffer[..got]))
}

fn read_all(path: &Path, piece: u64) -> Result<String, Errno> {
    let file = open_file(path)?;
    let mut buffer = vec![0; piece as usize];
    let mut all = Vec::new();
    loop {
        match read(&file, &mut buffer)? {
            0 => return Ok(digest(&all)),
            count => all.extend_from_slice(&buffer[..count]),
        }
    }
}

fn open_with(path: &Path, flags: u32) -> Result<String, Errno> {
    let flags = OFlags::from_bits_retain(flags) | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = open(path, flags, Mode::empty())?;
    let kind = FileType::from_raw_mode(fstat(&file)?.st_mode);
    Ok(format!("opened {kind:?}"))
}

/// The rules of `lseek(2)`: what is skipped as a hole is zeros, data ends where the file ends, and beyond the end there
/// is neither.
fn seek_data(path: &Path, offset: u64) -> Result<String, Errno> {
    let file = open_file(path)?;
    let size = fstat(&file)?.st_size as u64;
    let hole = seek(&file, SeekFrom::Hole(offset))?;
    let mut wrong = Vec::new();
    if !(offset..=size).contains(&hole) {
        wrong.push(format!("a hole at {hole} from {offset} of {size}"));
    }
    let data = match seek(&file, SeekFrom::Data(offset)) {
        Ok(data) if data >= offset && data < size => data,
        Ok(data) => return Ok(format!("data at {data} from {offset} of {size}")),
        Err(Errno::NXIO) => size,
        Err(error) => return Err(error),
    };
    let mut skipped = vec![0; (data - offset) as usize];
    pread(&file, &mut skipped, offset)?;
    if skipped.iter().any(|&byte| byte != 0) {
        wrong.push(format!("bytes in the hole from {offset} to {data}"));
    }
    Ok(format!("seeks {}", wrong.join(", ")))
}

fn access(path: &Path, mode: u32) -> Result<String, Errno> {
    let access = rustix::fs::Access::from_bits_truncate(mode);
    rustix::fs::accessat(CWD, path, access, AtFlags::empty())?;
    Ok("allowed".into())
}

fn xattrs(path: &Path) -> Result<String, Errno> {
    let mut names = vec![0; 64 << 10];
    let count = llistxattr(path, &mut names)?;
    let mut lines = Vec::new();
    for name in names[..count].split(|&byte| byte == 0).filter(|name| name.starts_with(b"user.")) {
        let mut value = vec![0; 64 << 10];
        let name = name.to_vec();
        let bytes = lgetxattr(path, name.as_slice(), &mut value)?;
        lines.push(format!("{}={}", name.escape_ascii(), value[..bytes].escape_ascii()));
    }
    lines.sort();
    let mut none = [0; 16];
    let absent = lgetxattr(path, "user.absent", &mut none);
    Ok(format!("{} absent {}", lines.join(" "), line(absent.map(|_| "there".into()))))
}

fn filesystem(path: &Path) -> Result<String, Errno> {
    let filesystem = statvfs(path)?;
    let room = filesystem.f_blocks > 0 && filesystem.f_bsize > 0 && filesystem.f_frsize > 0;
    Ok(format!("room {room} names of {}", filesystem.f_namemax))
}
