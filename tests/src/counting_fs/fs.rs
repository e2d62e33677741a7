//! The file system itself: each operation is counted, takes its time, and is done on the source.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use super::State;
use super::tally::Kind;

struct Name {
    ino: u64,
    kind: FileType,
    name: OsString,
}

enum Handle {
    File(File),
    Dir(Vec<Name>),
}

/// One mount of the source.
pub(super) struct CountingFs {
    state: Arc<State>,
    source: PathBuf,
    /// Paths relative to the source by inode number; the source's root is inode 1.
    paths: RwLock<HashMap<u64, PathBuf>>,
    handles: Mutex<HashMap<u64, Arc<Handle>>>,
    next_handle: AtomicU64,
}

impl CountingFs {
    pub(super) fn new(state: Arc<State>, source: &Path) -> CountingFs {
        let paths = HashMap::from([(INodeNo::ROOT.0, PathBuf::new())]);
        CountingFs {
            state,
            source: source.to_path_buf(),
            paths: RwLock::new(paths),
            handles: Mutex::default(),
            next_handle: AtomicU64::new(1),
        }
    }

    /// The path of an inode, relative to the source.
    fn path(&self, ino: INodeNo) -> io::Result<PathBuf> {
        let paths = self.paths.read().expect("no serving thread panics");
        paths.get(&ino.0).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn operation(&self, kind: Kind, path: &Path) {
        self.state.tally.count(kind, path);
        self.state.pace.take(kind);
    }

    /// Attributes of what lies at `path`, and remembers its inode.
    fn enter(&self, path: PathBuf) -> io::Result<FileAttr> {
        let attr = attributes(&fs::symlink_metadata(self.source.join(&path))?);
        self.paths.write().expect("no serving thread panics").insert(attr.ino.0, path);
        Ok(attr)
    }

    fn attributes_of(&self, ino: INodeNo) -> io::Result<FileAttr> {
        let mut attr = attributes(&fs::symlink_metadata(self.source.join(self.path(ino)?))?);
        attr.ino = ino;
        Ok(attr)
    }

    fn keep(&self, handle: Handle) -> FileHandle {
        let number = self.next_handle.fetch_add(1, Ordering::Relaxed);
        self.handles.lock().expect("no serving thread panics").insert(number, Arc::new(handle));
        FileHandle(number)
    }

    fn handle(&self, number: FileHandle) -> Option<Arc<Handle>> {
        self.handles.lock().expect("no serving thread panics").get(&number.0).cloned()
    }

    fn forget_handle(&self, number: FileHandle) {
        self.handles.lock().expect("no serving thread panics").remove(&number.0);
    }

    fn open_flags(&self) -> FopenFlags {
        if self.state.keep_pages { FopenFlags::FOPEN_KEEP_CACHE } else { FopenFlags::empty() }
    }

    fn child(&self, parent: INodeNo, name: &OsStr) -> io::Result<PathBuf> {
        Ok(self.path(parent)?.join(name))
    }

    /// Makes something called `name` in `parent` with `make`, for the user who asked.
    fn make(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        make: impl FnOnce(&Path) -> io::Result<()>,
    ) -> io::Result<FileAttr> {
        let path = self.child(parent, name)?;
        self.operation(Kind::Change, &path);
        let target = self.source.join(&path);
        make(&target)?;
        std::os::unix::fs::lchown(&target, Some(request.uid()), Some(request.gid()))?;
        self.enter(path)
    }

    fn remove(&self, parent: INodeNo, name: &OsStr, remove: impl FnOnce(PathBuf) -> io::Result<()>) -> io::Result<()> {
        let path = self.child(parent, name)?;
        self.operation(Kind::Change, &path);
        remove(self.source.join(path))
    }

    fn move_name(&self, from: PathBuf, to: PathBuf) -> io::Result<()> {
        self.operation(Kind::Change, &to);
        fs::rename(self.source.join(&from), self.source.join(&to))?;
        for path in self.paths.write().expect("no serving thread panics").values_mut() {
            if let Ok(below) = path.strip_prefix(&from) {
                *path = if below.as_os_str().is_empty() { to.clone() } else { to.join(below) };
            }
        }
        Ok(())
    }

    fn names_of(&self, ino: INodeNo) -> io::Result<Vec<Name>> {
        let mut names = vec![
            Name { ino: ino.0, kind: FileType::Directory, name: ".".into() },
            Name { ino: ino.0, kind: FileType::Directory, name: "..".into() },
        ];
        for entry in fs::read_dir(self.source.join(self.path(ino)?))? {
            let entry = entry?;
            let ino = std::os::unix::fs::DirEntryExt::ino(&entry);
            names.push(Name { ino, kind: kind_of(entry.file_type()?), name: entry.file_name() });
        }
        Ok(names)
    }
}

fn kind_of(kind: fs::FileType) -> FileType {
    match kind {
        kind if kind.is_dir() => FileType::Directory,
        kind if kind.is_symlink() => FileType::Symlink,
        kind if kind.is_fifo() => FileType::NamedPipe,
        kind if kind.is_socket() => FileType::Socket,
        kind if kind.is_char_device() => FileType::CharDevice,
        kind if kind.is_block_device() => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

fn attributes(meta: &Metadata) -> FileAttr {
    let ctime = UNIX_EPOCH + Duration::new(meta.ctime().unsigned_abs(), meta.ctime_nsec() as u32);
    FileAttr {
        ino: INodeNo(meta.ino()),
        size: meta.size(),
        blocks: meta.blocks(),
        atime: meta.accessed().unwrap_or(UNIX_EPOCH),
        mtime: meta.modified().unwrap_or(UNIX_EPOCH),
        ctime,
        crtime: UNIX_EPOCH,
        kind: kind_of(meta.file_type()),
        perm: (meta.mode() & 0o7777) as u16,
        nlink: meta.nlink() as u32,
        uid: meta.uid(),
        gid: meta.gid(),
        rdev: meta.rdev() as u32,
        blksize: 4096,
        flags: 0,
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
        reply.opened(self.keep(Handle::File(file)), self.open_flags());
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
        let handle = self.keep(Handle::File(file.expect("made above")));
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
        reply.opened(self.keep(Handle::Dir(names)), FopenFlags::empty());
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
