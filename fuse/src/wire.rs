//! The structures of `linux/fuse.h`, under its names and in its order.

#![allow(missing_docs, reason = "documented in linux/fuse.h")]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The latest version of the protocol that this crate supports.
pub(crate) const MAJOR: u32 = 7;
pub(crate) const MINOR: u32 = 45;
/// The oldest kernel's: Linux 5.4.
pub(crate) const MINOR_MIN: u32 = 31;

/// Numbers of operations.
pub(crate) mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const SETXATTR: u32 = 21;
    pub const GETXATTR: u32 = 22;
    pub const LISTXATTR: u32 = 23;
    pub const REMOVEXATTR: u32 = 24;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const GETLK: u32 = 31;
    pub const SETLK: u32 = 32;
    pub const SETLKW: u32 = 33;
    pub const ACCESS: u32 = 34;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const READDIRPLUS: u32 = 44;
    pub const RENAME2: u32 = 45;
    pub const LSEEK: u32 = 46;
    pub const COPY_FILE_RANGE: u32 = 47;
    pub const STATX: u32 = 52;
}

/// Numbers of notifications, in place of a reply's error.
pub(crate) mod notify {
    pub const INVAL_INODE: i32 = 2;
    pub const INVAL_ENTRY: i32 = 3;
    pub const STORE: i32 = 4;
    pub const RESEND: i32 = 7;
    pub const INC_EPOCH: i32 = 8;
    pub const PRUNE: i32 = 9;
    /// `fuse_notify_inval_entry_out.flags`
    pub const EXPIRE_ONLY: u32 = 1;
}

/// Bits of `fuse_setattr_in.valid`.
pub(crate) mod fattr {
    pub const MODE: u32 = 1;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ATIME: u32 = 1 << 4;
    pub const MTIME: u32 = 1 << 5;
    pub const ATIME_NOW: u32 = 1 << 7;
    pub const MTIME_NOW: u32 = 1 << 8;
}

pub(crate) const WRITE_CACHE: u32 = 1;
/// The bit of `fuse_lk_in.lk_flags` for a lock of `flock`.
pub(crate) const LK_FLOCK: u32 = 1;

/// Kinds of locks, as in linux/fcntl.h.
pub(crate) mod lock_kind {
    pub const SHARED: u32 = 0;
    pub const EXCLUSIVE: u32 = 1;
    pub const UNLOCK: u32 = 2;
}
pub(crate) const FSYNC_FDATASYNC: u32 = 1;
/// The bit of `unique` that marks a resent request.
pub(crate) const UNIQUE_RESEND: u64 = 1 << 63;

macro_rules! structures {
    ($($(#[$note:meta])* struct $name:ident { $($(#[$field_note:meta])* $field:ident: $type:ty,)* })*) => { $(
        $(#[$note])*
        #[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        pub(crate) struct $name { $($(#[$field_note])* pub $field: $type,)* }
    )* };
}

structures! {
    struct InHeader {
        len: u32,
        opcode: u32,
        unique: u64,
        nodeid: u64,
        uid: u32,
        gid: u32,
        pid: u32,
        /// Length of the extensions at the end, in units of 8 bytes.
        total_extlen: u16,
        padding: u16,
    }
    struct OutHeader {
        len: u32,
        error: i32,
        unique: u64,
    }
    struct Attr {
        ino: u64,
        size: u64,
        blocks: u64,
        atime: u64,
        mtime: u64,
        ctime: u64,
        atimensec: u32,
        mtimensec: u32,
        ctimensec: u32,
        mode: u32,
        nlink: u32,
        uid: u32,
        gid: u32,
        rdev: u32,
        blksize: u32,
        flags: u32,
    }
    struct SxTime {
        tv_sec: i64,
        tv_nsec: u32,
        reserved: i32,
    }
    struct Statx {
        mask: u32,
        blksize: u32,
        attributes: u64,
        nlink: u32,
        uid: u32,
        gid: u32,
        mode: u16,
        spare0: u16,
        ino: u64,
        size: u64,
        blocks: u64,
        attributes_mask: u64,
        atime: SxTime,
        btime: SxTime,
        ctime: SxTime,
        mtime: SxTime,
        rdev_major: u32,
        rdev_minor: u32,
        dev_major: u32,
        dev_minor: u32,
        spare2: [u64; 14],
    }
    struct Kstatfs {
        blocks: u64,
        bfree: u64,
        bavail: u64,
        files: u64,
        ffree: u64,
        bsize: u32,
        namelen: u32,
        frsize: u32,
        padding: u32,
        spare: [u32; 6],
    }
    struct EntryOut {
        nodeid: u64,
        generation: u64,
        entry_valid: u64,
        attr_valid: u64,
        entry_valid_nsec: u32,
        attr_valid_nsec: u32,
        attr: Attr,
    }
    struct ForgetOne {
        nodeid: u64,
        nlookup: u64,
    }
    struct GetattrIn {
        getattr_flags: u32,
        dummy: u32,
        fh: u64,
    }
    struct AttrOut {
        attr_valid: u64,
        attr_valid_nsec: u32,
        dummy: u32,
        attr: Attr,
    }
    struct StatxIn {
        getattr_flags: u32,
        reserved: u32,
        fh: u64,
        sx_flags: u32,
        sx_mask: u32,
    }
    struct StatxOut {
        attr_valid: u64,
        attr_valid_nsec: u32,
        flags: u32,
        spare: [u64; 2],
        stat: Statx,
    }
    struct MknodIn {
        mode: u32,
        rdev: u32,
        umask: u32,
        padding: u32,
    }
    struct MkdirIn {
        mode: u32,
        umask: u32,
    }
    struct Rename2In {
        newdir: u64,
        flags: u32,
        padding: u32,
    }
    struct SetattrIn {
        valid: u32,
        padding: u32,
        fh: u64,
        size: u64,
        lock_owner: u64,
        atime: u64,
        mtime: u64,
        ctime: u64,
        atimensec: u32,
        mtimensec: u32,
        ctimensec: u32,
        mode: u32,
        unused4: u32,
        uid: u32,
        gid: u32,
        unused5: u32,
    }
    struct OpenIn {
        flags: u32,
        open_flags: u32,
    }
    struct CreateIn {
        flags: u32,
        mode: u32,
        umask: u32,
        open_flags: u32,
    }
    struct OpenOut {
        fh: u64,
        open_flags: u32,
        backing_id: i32,
    }
    struct CreateOut {
        entry: EntryOut,
        open: OpenOut,
    }
    struct ReleaseIn {
        fh: u64,
        flags: u32,
        release_flags: u32,
        lock_owner: u64,
    }
    struct FlushIn {
        fh: u64,
        unused: u32,
        padding: u32,
        lock_owner: u64,
    }
    /// `fuse_file_lock`, which is the reply to GETLK, too.
    struct FileLock {
        start: u64,
        end: u64,
        kind: u32,
        pid: u32,
    }
    struct LkIn {
        fh: u64,
        owner: u64,
        lock: FileLock,
        lk_flags: u32,
        padding: u32,
    }
    /// READ's, READDIR's and WRITE's.
    struct TransferIn {
        fh: u64,
        offset: u64,
        size: u32,
        transfer_flags: u32,
        lock_owner: u64,
        flags: u32,
        padding: u32,
    }
    struct FsyncIn {
        fh: u64,
        fsync_flags: u32,
        padding: u32,
    }
    /// The short form: SETXATTR_EXT is never agreed on.
    struct SetxattrIn {
        size: u32,
        flags: u32,
    }
    /// `fuse_write_out`, `fuse_getxattr_in`, `fuse_getxattr_out`, `fuse_access_in` and `fuse_batch_forget_in`.
    struct Number {
        value: u32,
        padding: u32,
    }
    /// The part that every kernel sends.
    struct InitIn {
        major: u32,
        minor: u32,
        max_readahead: u32,
        flags: u32,
    }
    struct InitOut {
        major: u32,
        minor: u32,
        max_readahead: u32,
        flags: u32,
        max_background: u16,
        congestion_threshold: u16,
        max_write: u32,
        time_gran: u32,
        max_pages: u16,
        map_alignment: u16,
        flags2: u32,
        max_stack_depth: u32,
        request_timeout: u16,
        unused: [u16; 11],
    }
    struct FallocateIn {
        fh: u64,
        offset: u64,
        length: u64,
        mode: u32,
        padding: u32,
    }
    struct LseekIn {
        fh: u64,
        offset: u64,
        whence: u32,
        padding: u32,
    }
    struct CopyFileRangeIn {
        fh_in: u64,
        off_in: u64,
        nodeid_out: u64,
        fh_out: u64,
        off_out: u64,
        len: u64,
        flags: u64,
    }
    struct Dirent {
        ino: u64,
        off: u64,
        namelen: u32,
        kind: u32,
    }
    struct NotifyInvalInode {
        ino: u64,
        off: i64,
        len: i64,
    }
    struct NotifyInvalEntry {
        parent: u64,
        namelen: u32,
        flags: u32,
    }
    struct NotifyStore {
        nodeid: u64,
        offset: u64,
        size: u32,
        padding: u32,
    }
    struct NotifyPrune {
        count: u32,
        padding: u32,
        spare: u64,
    }
    /// FUSE_DEV_IOC_BACKING_OPEN's argument.
    struct BackingMap {
        fd: i32,
        flags: u32,
        padding: u64,
    }
}

/// Directory entries start at multiples of this.
pub(crate) const DIRENT_ALIGN: usize = 8;

const _: () = {
    assert!(size_of::<InHeader>() == 40 && size_of::<OutHeader>() == 16);
    assert!(size_of::<Attr>() == 88 && size_of::<EntryOut>() == 128 && size_of::<AttrOut>() == 104);
    assert!(size_of::<Statx>() == 256 && size_of::<StatxOut>() == 288);
    assert!(size_of::<SetattrIn>() == 88 && size_of::<TransferIn>() == 40);
    assert!(size_of::<InitOut>() == 64 && size_of::<Kstatfs>() == 80);
    assert!(size_of::<FileLock>() == 24 && size_of::<LkIn>() == 48);
    assert!(size_of::<Dirent>() == 24 && size_of::<BackingMap>() == 16);
};
