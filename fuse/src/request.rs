//! Requests, decoded.

use thiserror::Error;

use crate::NodeId;
use crate::wire::UNIQUE_RESEND;

/// One request of the kernel. Names and data borrow from the bytes it was decoded from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// To be repeated in the reply. A request that the kernel resends has the same number except for a bit;
    /// see [`Request::is_resent`].
    pub unique: u64,
    /// The node that it is about.
    pub node: NodeId,
    /// The caller's user, in the connection's user namespace.
    pub uid: u32,
    /// The caller's group.
    pub gid: u32,
    /// The caller's process, 0 if it has none in the connection's namespace.
    pub pid: u32,
    /// The operation.
    pub operation: Operation<'a>,
}

/// An operation and the arguments that servers need.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "fields are those of the system calls and of linux/fuse.h")]
pub enum Operation<'a> {
    Init(Init),
    Destroy,
    Lookup {
        name: &'a [u8],
    },
    /// No reply.
    Forget {
        lookups: u64,
    },
    /// No reply.
    BatchForget(Forgets<'a>),
    /// No reply.
    Interrupt {
        unique: u64,
    },
    Getattr,
    Statx,
    Setattr(Setattr),
    Readlink,
    Access,
    Open {
        flags: u32,
    },
    Create {
        flags: u32,
        mode: u32,
        umask: u32,
        name: &'a [u8],
    },
    Read {
        offset: u64,
        bytes: u32,
    },
    /// `is_from_cache`: written back from shared mappings, with no caller.
    Write {
        offset: u64,
        flags: u32,
        is_from_cache: bool,
        data: &'a [u8],
    },
    Flush,
    Release {
        handle: u64,
    },
    /// Requests a lock that would exclude this one.
    Getlk(Lock),
    /// `waits`: SETLKW.
    Setlk {
        lock: Lock,
        waits: bool,
    },
    Fsync {
        data_only: bool,
    },
    Fallocate {
        offset: u64,
        bytes: u64,
        mode: u32,
    },
    Lseek {
        offset: u64,
        whence: u32,
    },
    CopyFileRange,
    Opendir,
    /// `plus`: READDIRPLUS.
    Readdir {
        offset: u64,
        bytes: u32,
        plus: bool,
    },
    Releasedir,
    Fsyncdir {
        data_only: bool,
    },
    Statfs,
    /// `bytes` 0 requests the size of the value.
    Getxattr {
        name: &'a [u8],
        bytes: u32,
    },
    Listxattr {
        bytes: u32,
    },
    Setxattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: u32,
    },
    Removexattr {
        name: &'a [u8],
    },
    Mknod {
        mode: u32,
        rdev: u32,
        umask: u32,
        name: &'a [u8],
    },
    Mkdir {
        mode: u32,
        umask: u32,
        name: &'a [u8],
    },
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    /// The request's node is the new name's directory.
    Link {
        existing: NodeId,
        name: &'a [u8],
    },
    Unlink {
        name: &'a [u8],
    },
    Rmdir {
        name: &'a [u8],
    },
    /// The request's node is the old name's directory; `flags` are `renameat2`'s.
    Rename {
        name: &'a [u8],
        to: NodeId,
        to_name: &'a [u8],
        flags: u32,
    },
    /// Any other, by its number: to be answered ENOSYS.
    Unknown(u32),
}

/// The kernel's side of INIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "fields are those of linux/fuse.h")]
pub struct Init {
    pub major: u32,
    pub minor: u32,
    pub readahead_bytes_max: u32,
    /// Both words of flags.
    pub flags: u64,
}

/// A lock of a file, or of a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// A number of who has it: of an open file description, or of a process's table of descriptors.
    pub owner: u64,
    /// What it excludes.
    pub kind: LockKind,
    /// The first byte.
    pub start: u64,
    /// The last byte; [`Lock::END`]: up to the end of the file, wherever that is.
    pub end: u64,
    /// The process, 0 if it has none in the connection's namespace, or if it unlocks.
    pub pid: u32,
    /// It is one of `flock`, of a whole file, and excludes only others of `flock`.
    pub is_flock: bool,
}

/// What a lock excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Exclusive locks.
    Shared,
    /// All others.
    Exclusive,
    /// Nothing: the part is unlocked.
    Unlock,
}

/// Attributes to be set; `None`: unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "fields are those of struct stat")]
pub struct Setattr {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<SetTime>,
    pub mtime: Option<SetTime>,
}

/// A time to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The time of the change.
    Now,
    /// Seconds and nanoseconds since the epoch.
    At(i64, u32),
}

/// Nodes that the kernel forgets: (node, look-ups).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgets<'a>(pub(crate) &'a [u8]);

/// Why bytes are no request. The reply, if one is possible, is EIO to [`DecodeError::unique`].
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("not a request of the FUSE protocol (operation {opcode})")]
pub struct DecodeError {
    /// The operation's number, 0 if even that is missing.
    pub opcode: u32,
    /// The request's number, 0 if even that is missing.
    pub unique: u64,
}

impl Lock {
    /// `OFFSET_MAX` of the kernel.
    pub const END: u64 = i64::MAX as u64;
}

impl Request<'_> {
    /// Returns whether the kernel has sent this before, to a server that died over it.
    pub fn is_resent(&self) -> bool {
        self.unique & UNIQUE_RESEND != 0
    }
}
