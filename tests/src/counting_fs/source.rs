//! One mount of the source: which inode is which path, and which files are open.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{FileAttr, FileHandle, FileType, FopenFlags, INodeNo, Request};

use super::state::State;
use super::tally::Kind;

/// A name in a directory.
pub(super) struct Name {
    pub(super) ino: u64,
    pub(super) kind: FileType,
    pub(super) name: OsString,
}

/// An open file or directory.
pub(super) enum Handle {
    File(File),
    Dir(Vec<Name>),
}

/// One mount of the source.
pub(super) struct CountingFs {
    pub(super) state: Arc<State>,
    pub(super) source: PathBuf,
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
    pub(super) fn path(&self, ino: INodeNo) -> io::Result<PathBuf> {
        let paths = self.paths.read().expect("no serving thread panics");
        paths.get(&ino.0).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn operation(&self, kind: Kind, path: &Path) {
        self.state.tally.count(kind, path);
        self.state.pace.take(kind);
    }

    /// Attributes of what lies at `path`, and remembers its inode.
    pub(super) fn enter(&self, path: PathBuf) -> io::Result<FileAttr> {
        let attr = attributes(&fs::symlink_metadata(self.source.join(&path))?);
        self.paths.write().expect("no serving thread panics").insert(attr.ino.0, path);
        Ok(attr)
    }

    pub(super) fn attributes_of(&self, ino: INodeNo) -> io::Result<FileAttr> {
        let mut attr = attributes(&fs::symlink_metadata(self.source.join(self.path(ino)?))?);
        attr.ino = ino;
        Ok(attr)
    }

    pub(super) fn insert(&self, handle: Handle) -> FileHandle {
        let number = self.next_handle.fetch_add(1, Ordering::Relaxed);
        self.handles.lock().expect("no serving thread panics").insert(number, Arc::new(handle));
        FileHandle(number)
    }

    pub(super) fn handle(&self, number: FileHandle) -> Option<Arc<Handle>> {
        self.handles.lock().expect("no serving thread panics").get(&number.0).cloned()
    }

    pub(super) fn forget_handle(&self, number: FileHandle) {
        self.handles.lock().expect("no serving thread panics").remove(&number.0);
    }

    pub(super) fn open_flags(&self) -> FopenFlags {
        if self.state.retain_pages { FopenFlags::FOPEN_KEEP_CACHE } else { FopenFlags::empty() }
    }

    pub(super) fn child(&self, parent: INodeNo, name: &OsStr) -> io::Result<PathBuf> {
        Ok(self.path(parent)?.join(name))
    }

    /// Makes something called `name` in `parent` with `make`, for the requesting user.
    pub(super) fn make(
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

    pub(super) fn remove(
        &self,
        parent: INodeNo,
        name: &OsStr,
        remove: impl FnOnce(PathBuf) -> io::Result<()>,
    ) -> io::Result<()> {
        let path = self.child(parent, name)?;
        self.operation(Kind::Change, &path);
        remove(self.source.join(path))
    }

    pub(super) fn move_name(&self, from: PathBuf, to: PathBuf) -> io::Result<()> {
        self.operation(Kind::Change, &to);
        fs::rename(self.source.join(&from), self.source.join(&to))?;
        for path in self.paths.write().expect("no serving thread panics").values_mut() {
            if let Ok(below) = path.strip_prefix(&from) {
                *path = if below.as_os_str().is_empty() { to.clone() } else { to.join(below) };
            }
        }
        Ok(())
    }

    pub(super) fn names_of(&self, ino: INodeNo) -> io::Result<Vec<Name>> {
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
