//! The file system's operations: each is counted, takes its time, and is done on the source.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, LockOwner, OpenFlags, RenameFlags,
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};

use super::source::{CountingFs, Handle};
use super::tally::Kind;

/// Unwraps a result or answers with its error.
macro_rules! attempt {
    ($result:expr, $reply:ident) => {
        match $result {
            Ok(value) => value,
            Err(error) => return $reply.error(io::Error::into(error)),
        }
    };
}

impl Filesystem for CountingFs {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let path = attempt!(self.child(parent, name), reply);
        let entered = self.enter(path.clone());
        self.operation(if entered.is_ok() { Kind::Lookup } else { Kind::FailedLookup }, &path);
        let attr = attempt!(entered, reply);
        reply.entry_with_ttls(&self.state.entry_ttl, &self.state.attr_ttl, &attr, Generation(0));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.operation(Kind::Getattr, &attempt!(self.path(ino), reply));
        let attr = attempt!(self.attributes_of(ino), reply);
        reply.attr(&self.state.attr_ttl, &attr);
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let path = attempt!(self.path(ino), reply);
        self.operation(Kind::Change, &path);
        let target = self.source.join(path);
        if let Some(mode) = mode {
            attempt!(fs::set_permissions(&target, fs::Permissions::from_mode(mode & 0o7777)), reply);
        }
        if uid.is_some() || gid.is_some() {
            attempt!(std::os::unix::fs::lchown(&target, uid, gid), reply);
        }
        if size.is_some() || atime.is_some() || mtime.is_some() {
            let file = attempt!(File::options().write(true).open(&target), reply);
            if let Some(size) = size {
                attempt!(file.set_len(size), reply);
            }
            let mut times = fs::FileTimes::new();
            times = atime.into_iter().fold(times, |times, at| times.set_accessed(time(at)));
            times = mtime.into_iter().fold(times, |times, at| times.set_modified(time(at)));
            attempt!(file.set_times(times), reply);
        }
        let attr = attempt!(self.attributes_of(ino), reply);
        reply.attr(&self.state.attr_ttl, &attr);
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let path = attempt!(self.path(ino), reply);
        self.operation(Kind::Readlink, &path);
        let target = attempt!(fs::read_link(self.source.join(path)), reply);
        reply.data(target.as_os_str().as_bytes());
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let made = self.make(request, parent, name, |path| {
            fs::create_dir(path)?;
            fs::set_permissions(path, fs::Permissions::from_mode(mode & !umask & 0o7777))
        });
        let attr = attempt!(made, reply);
        reply.entry(&self.state.entry_ttl, &attr, Generation(0));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let made = self.make(request, parent, name, |path| std::os::unix::fs::symlink(target, path));
        let attr = attempt!(made, reply);
        reply.entry(&self.state.entry_ttl, &attr, Generation(0));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        attempt!(self.remove(parent, name, fs::remove_file), reply);
        reply.ok();
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        attempt!(self.remove(parent, name, fs::remove_dir), reply);
        reply.ok();
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        to_parent: INodeNo,
        to_name: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let from = attempt!(self.child(parent, name), reply);
        let to = attempt!(self.child(to_parent, to_name), reply);
        attempt!(self.move_name(from, to), reply);
        reply.ok();
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let path = attempt!(self.path(ino), reply);
        self.operation(Kind::Open, &path);
        let mode = flags.acc_mode();
        let mut options = File::options();
        options.read(mode != fuser::OpenAccMode::O_WRONLY).write(mode != fuser::OpenAccMode::O_RDONLY);
        let file = attempt!(options.open(self.source.join(path)), reply);
        reply.opened(self.insert(Handle::File(file)), self.open_flags());
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let mut file = None;
        let made = self.make(request, parent, name, |path| {
            let mode = mode & !umask & 0o7777;
            file = Some(File::options().read(true).write(true).create_new(true).mode(mode).open(path)?);
            Ok(())
        });
        let attr = attempt!(made, reply);
        let handle = self.insert(Handle::File(file.expect("made above")));
        reply.created(&self.state.entry_ttl, &attr, Generation(0), handle, FopenFlags::empty());
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.operation(Kind::Read, &attempt!(self.path(ino), reply));
        match self.handle(handle).as_deref() {
            Some(Handle::File(file)) => {
                let mut bytes = vec![0; size as usize];
                let count = attempt!(read_full(file, &mut bytes, offset), reply);
                self.state.tally.count_bytes(count);
                self.state.pace.take_bytes(count);
                reply.data(&bytes[..count]);
            }
            _ => reply.error(Errno::EBADF),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.operation(Kind::Change, &attempt!(self.path(ino), reply));
        match self.handle(handle).as_deref() {
            Some(Handle::File(file)) => {
                attempt!(file.write_all_at(data, offset), reply);
                reply.written(data.len() as u32);
            }
            _ => reply.error(Errno::EBADF),
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.forget_handle(handle);
        reply.ok();
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.operation(Kind::Opendir, &attempt!(self.path(ino), reply));
        let names = attempt!(self.names_of(ino), reply);
        reply.opened(self.insert(Handle::Dir(names)), FopenFlags::empty());
    }

    fn readdir(&self, _: &Request, ino: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        self.operation(Kind::Readdir, &attempt!(self.path(ino), reply));
        let handle = self.handle(handle);
        let Some(Handle::Dir(names)) = handle.as_deref() else {
            return reply.error(Errno::EBADF);
        };
        for (number, entry) in names.iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(entry.ino), number as u64 + 1, entry.kind, &entry.name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.forget_handle(handle);
        reply.ok();
    }
}

fn read_full(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut count = 0;
    while count < bytes.len() {
        match file.read_at(&mut bytes[count..], offset + count as u64)? {
            0 => break,
            more => count += more,
        }
    }
    Ok(count)
}

fn time(time: TimeOrNow) -> SystemTime {
    match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    }
}
