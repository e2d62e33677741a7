//! Replies, encoded.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use headwater_abi::Attr;
use zerocopy::{Immutable, IntoBytes};

use crate::request::{Lock, LockKind};
use crate::wire::{
    self, AttrOut, CreateOut, EntryOut, FileLock, Kstatfs, Number, OpenOut, OutHeader, StatxOut, SxTime, lock_kind,
};
use crate::{Device, NodeId, Pipe};

/// How long the kernel may cache: without a limit.
pub const FOREVER: Duration = Duration::from_secs(u64::MAX >> 1);

/// A name's node, in the reply to LOOKUP and similar requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The node; `None`: there is no such name, and the kernel may cache that.
    pub node: Option<NodeId>,
    /// Its attributes; `stat` returns `ino`.
    pub attr: Attr,
    /// How long the name may be cached.
    pub entry_ttl: Duration,
    /// How long the attributes may be cached.
    pub attr_ttl: Duration,
}

/// The reply to one request. Each method writes it to the device, once.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The device.
    pub device: &'a Device,
    /// The request's number.
    pub unique: u64,
}

/// Bits of the reply to OPEN and OPENDIR.
#[allow(missing_docs, reason = "named as in linux/fuse.h")]
pub mod open_flag {
    pub const DIRECT_IO: u32 = 1;
    pub const KEEP_CACHE: u32 = 2;
    pub const CACHE_DIR: u32 = 8;
    pub const NOFLUSH: u32 = 32;
    pub const PASSTHROUGH: u32 = 128;
}

/// All errors: ENOENT if the request was interrupted meanwhile, which is harmless.
#[allow(clippy::missing_errors_doc, reason = "documented above")]
impl Reply<'_> {
    /// Replies with a failure. `errno` is positive.
    pub fn error(&self, errno: i32) -> io::Result<()> {
        self.device.send(self.unique, -errno, &[])
    }

    /// Replies with success without data.
    pub fn ok(&self) -> io::Result<()> {
        self.data(&[])
    }

    /// Replies with bytes: of READ, READLINK, READDIR, and of the extended attributes.
    pub fn data(&self, bytes: &[u8]) -> io::Result<()> {
        self.device.send(self.unique, 0, &[bytes])
    }

    /// Replies with bytes of a file, which pass through `pipe`, and returns the pipe for another reply. `None`: reply in
    /// another way, because the file is shorter or can't be spliced, or the device does not take it.
    pub fn content(&self, pipe: Pipe, file: BorrowedFd<'_>, offset: u64, bytes: usize) -> Option<Pipe> {
        let len = u32::try_from(size_of::<OutHeader>() + bytes).ok()?;
        let header = OutHeader { len, error: 0, unique: self.unique };
        pipe.pass(self.device.as_fd(), header.as_bytes(), file, offset, bytes)
    }

    /// Replies with a name's node.
    pub fn entry(&self, entry: &Entry) -> io::Result<()> {
        self.value(&entry.encode())
    }

    /// Replies with attributes.
    pub fn attr(&self, attr: &Attr, ttl: Duration) -> io::Result<()> {
        let (attr_valid, attr_valid_nsec) = (ttl.as_secs(), ttl.subsec_nanos());
        self.value(&AttrOut { attr_valid, attr_valid_nsec, dummy: 0, attr: encode_attr(attr) })
    }

    /// Replies with attributes and the time of birth.
    pub fn statx(&self, attr: &Attr, ttl: Duration) -> io::Result<()> {
        let (attr_valid, attr_valid_nsec) = (ttl.as_secs(), ttl.subsec_nanos());
        self.value(&StatxOut { attr_valid, attr_valid_nsec, stat: encode_statx(attr), ..StatxOut::default() })
    }

    /// Replies with an open file or directory. `backing`: the number of the backing file.
    pub fn open(&self, handle: u64, open_flags: u32, backing: Option<u32>) -> io::Result<()> {
        self.value(&encode_open(handle, open_flags, backing))
    }

    /// Replies with a new file, open.
    pub fn create(&self, entry: &Entry, handle: u64, open_flags: u32) -> io::Result<()> {
        self.value(&CreateOut { entry: entry.encode(), open: encode_open(handle, open_flags, None) })
    }

    /// Replies with a number of bytes: those written, or those of an extended attribute.
    pub fn count(&self, bytes: u32) -> io::Result<()> {
        self.value(&Number { value: bytes, padding: 0 })
    }

    /// Replies to GETLK with a lock that excludes the requested one; `None`: there is none.
    pub fn lock(&self, lock: Option<&Lock>) -> io::Result<()> {
        self.value(&lock.map_or(FileLock { kind: lock_kind::UNLOCK, ..FileLock::default() }, Lock::encode))
    }

    /// Replies with an offset.
    pub fn offset(&self, offset: u64) -> io::Result<()> {
        self.value(&offset)
    }

    /// Replies with the result of `statfs`.
    pub fn statfs(&self, statfs: &rustix::fs::StatVfs) -> io::Result<()> {
        let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        self.value(&Kstatfs {
            blocks: statfs.f_blocks,
            bfree: statfs.f_bfree,
            bavail: statfs.f_bavail,
            files: statfs.f_files,
            ffree: statfs.f_ffree,
            bsize: narrow(statfs.f_bsize),
            namelen: narrow(statfs.f_namemax),
            frsize: narrow(statfs.f_frsize),
            ..Kstatfs::default()
        })
    }

    fn value<T: IntoBytes + Immutable>(&self, value: &T) -> io::Result<()> {
        self.data(value.as_bytes())
    }
}

impl Lock {
    fn encode(&self) -> FileLock {
        let kind = match self.kind {
            LockKind::Shared => lock_kind::SHARED,
            LockKind::Exclusive => lock_kind::EXCLUSIVE,
            LockKind::Unlock => lock_kind::UNLOCK,
        };
        FileLock { start: self.start, end: self.end, kind, pid: self.pid }
    }
}

impl Entry {
    pub(crate) fn encode(&self) -> EntryOut {
        EntryOut {
            nodeid: self.node.map_or(0, |node| node.0),
            generation: 0,
            entry_valid: self.entry_ttl.as_secs(),
            attr_valid: self.attr_ttl.as_secs(),
            entry_valid_nsec: self.entry_ttl.subsec_nanos(),
            attr_valid_nsec: self.attr_ttl.subsec_nanos(),
            attr: encode_attr(&self.attr),
        }
    }
}

fn encode_attr(attr: &Attr) -> wire::Attr {
    wire::Attr {
        ino: attr.ino,
        size: attr.size,
        blocks: attr.blocks,
        atime: attr.atime.0 as u64,
        mtime: attr.mtime.0 as u64,
        ctime: attr.ctime.0 as u64,
        atimensec: attr.atime.1,
        mtimensec: attr.mtime.1,
        ctimensec: attr.ctime.1,
        mode: attr.mode,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: encode_rdev(attr.rdev_major, attr.rdev_minor),
        blksize: attr.blksize,
        flags: 0,
    }
}

/// Encodes a device number like the kernel's `new_encode_dev`.
fn encode_rdev(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

fn encode_statx(attr: &Attr) -> wire::Statx {
    let time = |(tv_sec, tv_nsec): (i64, u32)| SxTime { tv_sec, tv_nsec, reserved: 0 };
    wire::Statx {
        mask: attr.mask & STATX_KNOWN | STATX_BASIC_STATS,
        blksize: attr.blksize,
        attributes: attr.attributes,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        mode: attr.mode as u16,
        ino: attr.ino,
        size: attr.size,
        blocks: attr.blocks,
        attributes_mask: attr.attributes_mask,
        atime: time(attr.atime),
        btime: time(attr.btime),
        ctime: time(attr.ctime),
        mtime: time(attr.mtime),
        rdev_major: attr.rdev_major,
        rdev_minor: attr.rdev_minor,
        dev_major: attr.dev_major,
        dev_minor: attr.dev_minor,
        ..wire::Statx::default()
    }
}

fn encode_open(handle: u64, open_flags: u32, backing: Option<u32>) -> OpenOut {
    let passthrough = if backing.is_some() { open_flag::PASSTHROUGH } else { 0 };
    OpenOut { fh: handle, open_flags: open_flags | passthrough, backing_id: backing.unwrap_or(0) as i32 }
}

const STATX_BASIC_STATS: u32 = 0x7ff;
const STATX_KNOWN: u32 = STATX_BASIC_STATS | 0x800;

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use zerocopy::FromBytes;

    use super::*;
    use crate::wire::{OutHeader, Statx};

    /// Returns what one reply to request 42 writes: the header's error, and the rest.
    fn written(reply: impl FnOnce(Reply) -> io::Result<()>) -> (i32, Vec<u8>) {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let device = Device::from_fd(ours);
        reply(Reply { device: &device, unique: 42 }).unwrap();
        whole(&theirs)
    }

    fn whole(socket: &OwnedFd) -> (i32, Vec<u8>) {
        let mut buffer = [0; 4096];
        let bytes = rustix::io::read(socket, &mut buffer).unwrap();
        let (header, rest) = OutHeader::read_from_prefix(&buffer[..bytes]).unwrap();
        assert_eq!((header.len as usize, header.unique), (bytes, 42));
        (header.error, rest.to_vec())
    }

    fn attr() -> Attr {
        Attr {
            mode: 0o100_755,
            nlink: 2,
            ino: 42,
            rdev_major: 0x123,
            rdev_minor: 0x4_5678,
            size: 1 << 40,
            mask: 0xfff,
            mtime: (-5, 999_999_999),
            btime: (9, 1),
            ..Attr::default()
        }
    }

    #[test]
    fn short_replies() {
        assert_eq!(written(|r| r.error(2)), (-2, vec![]));
        assert_eq!(written(|r| r.ok()), (0, vec![]));
        assert_eq!(written(|r| r.data(b"abc")), (0, b"abc".to_vec()));
        assert_eq!(written(|r| r.offset(7)), (0, 7u64.to_ne_bytes().to_vec()));
        let number = [7u32.to_ne_bytes(), [0; 4]].concat();
        assert_eq!(written(|r| r.count(7)), (0, number));
    }

    #[test]
    fn entries_and_attributes() {
        let entry =
            Entry { node: Some(NodeId(9)), attr: attr(), entry_ttl: FOREVER, attr_ttl: Duration::from_millis(1500) };
        let bytes = written(|r| r.entry(&entry)).1;
        let out = EntryOut::read_from_bytes(&bytes).unwrap();
        assert_eq!(
            (out.nodeid, out.entry_valid, out.attr_valid, out.attr_valid_nsec),
            (9, i64::MAX as u64, 1, 500_000_000)
        );
        assert_eq!(
            (out.attr.ino, out.attr.size, out.attr.mtime, out.attr.mtimensec),
            (42, 1 << 40, -5i64 as u64, 999_999_999)
        );
        // glibc's makedev, which splits the same numbers.
        assert_eq!(out.attr.rdev, 0x4561_2378);
        let absent = Entry { node: None, ..entry.clone() };
        assert_eq!(EntryOut::read_from_bytes(&written(|r| r.entry(&absent)).1).unwrap().nodeid, 0);
        let attributes = AttrOut::read_from_bytes(&written(|r| r.attr(&attr(), FOREVER)).1).unwrap();
        assert_eq!((attributes.attr.mode, attributes.attr.nlink), (0o100_755, 2));
        let created = CreateOut::read_from_bytes(&written(|r| r.create(&entry, 5, open_flag::KEEP_CACHE)).1).unwrap();
        assert_eq!((created.entry.nodeid, created.open.fh, created.open.open_flags), (9, 5, 2));
    }

    #[test]
    fn the_time_of_birth_is_shown_if_it_is_known() {
        let statx = |mask| {
            let bytes = written(|r| r.statx(&Attr { mask, ..attr() }, FOREVER)).1;
            StatxOut::read_from_bytes(&bytes).unwrap().stat
        };
        let Statx { mask, btime, size, .. } = statx(0x1fff);
        assert_eq!((mask, btime.tv_sec, btime.tv_nsec, size), (0xfff, 9, 1, 1 << 40));
        assert_eq!(statx(0x7ff).mask, 0x7ff);
    }

    #[test]
    fn files_are_opened_and_passed_through() {
        let open =
            |backing| OpenOut::read_from_bytes(&written(|r| r.open(3, open_flag::KEEP_CACHE, backing)).1).unwrap();
        assert_eq!((open(None).fh, open(None).open_flags, open(None).backing_id), (3, 2, 0));
        assert_eq!((open(Some(8)).open_flags, open(Some(8)).backing_id), (130, 8));
    }

    #[test]
    fn a_lock_that_excludes_is_named() {
        let (owner, pid, is_flock) = (1, 9, false);
        let lock = Lock { owner, kind: LockKind::Exclusive, start: 5, end: Lock::END, pid, is_flock };
        let expected = FileLock { start: 5, end: Lock::END, kind: lock_kind::EXCLUSIVE, pid };
        assert_eq!(written(|reply| reply.lock(Some(&lock))), (0, expected.as_bytes().to_vec()));
        let none = FileLock { kind: lock_kind::UNLOCK, ..FileLock::default() };
        assert_eq!(written(|reply| reply.lock(None)), (0, none.as_bytes().to_vec()));
    }

    #[test]
    fn numbers_too_large_for_statfs_are_cut() {
        let statfs = rustix::fs::StatVfs { f_blocks: 1 << 40, f_bsize: 1 << 40, ..rustix::fs::statvfs("/").unwrap() };
        let out = Kstatfs::read_from_bytes(&written(|r| r.statfs(&statfs)).1).unwrap();
        assert_eq!((out.blocks, out.bsize), (1 << 40, u32::MAX));
    }
}
