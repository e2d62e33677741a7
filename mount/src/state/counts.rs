//! FUSE requests to a mounted file system, for the summary.

use serde::{Deserialize, Serialize};

/// Requests of the kernel to this node's mounted file system; all zero without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// All requests that have an answer.
    pub upcalls: u64,
    /// LOOKUP.
    pub lookups: u64,
    /// GETATTR and STATX.
    pub getattrs: u64,
    /// OPEN and OPENDIR.
    pub opens: u64,
    /// READ.
    pub reads: u64,
    /// READDIR and READDIRPLUS.
    pub readdirs: u64,
    /// IOCTL, mostly isatty(), whose answer the kernel never caches.
    #[serde(default)]
    pub ioctls: u64,
    /// Requests that the table alone could not answer.
    pub asked: u64,
    /// Requests that source files answered, except [`Counts::OF_SOURCE`].
    pub from_original: u64,
    /// Bytes read.
    pub bytes: u64,
}

impl Counts {
    /// Operations that source files always answer.
    pub const OF_SOURCE: [&str; 3] = ["getxattr", "listxattr", "statfs"];

    /// Adds another node's.
    pub fn add(&mut self, other: &Counts) {
        self.upcalls += other.upcalls;
        self.lookups += other.lookups;
        self.getattrs += other.getattrs;
        self.opens += other.opens;
        self.reads += other.reads;
        self.readdirs += other.readdirs;
        self.ioctls += other.ioctls;
        self.asked += other.asked;
        self.from_original += other.from_original;
        self.bytes += other.bytes;
    }
}
