//! The table's layout; `include/headwater/table.h` is the same in C.

use alloc::vec::Vec;

use bitflags::bitflags;
use serde::{Deserialize, Serialize};

use crate::attr::{ATTR_WORDS, Kind};

/// The first word: `HWTABLE` and a zero.
pub const MAGIC: u64 = u64::from_le_bytes(*b"HWTABLE\0");
/// The layout's version; a reader of another version uses the source files.
pub const VERSION: u64 = 2;
/// Slots that a look-up visits at most.
pub const PROBES_MAX: u64 = 128;

/// Word numbers in the header.
#[allow(missing_docs)]
pub mod word {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 1;
    pub const TOTAL_BYTES: usize = 2;
    pub const GENERATION: usize = 3;
    pub const SLOTS_AT: usize = 4;
    pub const SLOT_COUNT: usize = 5;
    pub const INO_SLOTS_AT: usize = 6;
    pub const INO_SLOT_COUNT: usize = 7;
    pub const HEAP_AT: usize = 8;
    pub const HEAP_USED: usize = 9;
    /// Scope entries: `+` or `-`, the directory, NUL; the longest match decides.
    pub const SCOPE_AT: usize = 10;
    pub const SCOPE_BYTES: usize = 11;
    /// The mirror's prefix, e.g. `/dev/shm/headwater-1000/SESSION/n0/1/root`.
    pub const STORE_AT: usize = 12;
    pub const STORE_BYTES: usize = 13;
    /// The daemon's socket.
    pub const SOCKET_AT: usize = 14;
    pub const SOCKET_BYTES: usize = 15;
    /// The file with the clients' counters.
    pub const COUNTERS_AT: usize = 16;
    pub const COUNTERS_BYTES: usize = 17;
    /// The store's device: major in the low half, minor in the high half.
    pub const STORE_DEV: usize = 18;
    /// 1 while the daemon serves, 2 once the session has ended.
    pub const SERVING: usize = 19;
    pub const RECORDS: usize = 20;
    /// Memory domains with copies of their own, a bit for each of the first 64: domain 3's copy of a file at
    /// `…/root` is at `…/root3`, if the record's state has `REPLICATED`.
    pub const DOMAINS: usize = 21;
    /// The root directory as the daemon sees it, its mount included: device as in [`STORE_DEV`].
    pub const ROOT_DEV: usize = 22;
    pub const ROOT_INO: usize = 23;
    pub const ROOT_MNT_ID: usize = 24;
    /// Inode numbers of the daemon's mount namespace and user namespace.
    pub const MNT_NS: usize = 25;
    pub const USER_NS: usize = 26;
    /// 1 once programs run in the session that don't announce their changes: processes compare what is known
    /// with the source file before they use it.
    pub const UNAUDITED: usize = 27;
    /// The content of larger files is not in the store, and processes use their source files; 0 for no limit.
    pub const STORED_FILE_BYTES_MAX: usize = 28;
    /// The mount point of the node's mount, below which processes under audit read files whose state has `IN_MOUNT`;
    /// none if it has no bytes.
    pub const MOUNT_AT: usize = 29;
    pub const MOUNT_BYTES: usize = 30;
    /// The mount's device, as [`STORE_DEV`].
    pub const MOUNT_DEV: usize = 31;
    /// 1 if programs that processes start in other processes run without the audit library.
    pub const UNFOLLOWED: usize = 32;
    /// Words of the header.
    pub const HEADER_WORDS: usize = 64;

    /// Word numbers in a record.
    pub const RECORD_STATE: usize = 0;
    /// Path length in the low half, the path hash's tag in the high half.
    pub const RECORD_PATH: usize = 1;
    /// Offset of the listing or of the link's target.
    pub const RECORD_AUX_AT: usize = 2;
    pub const RECORD_AUX_BYTES: usize = 3;
    pub const RECORD_ATTR: usize = 4;
    /// Inode number of the copy in the store, once there is one.
    pub const RECORD_STORE_INO: usize = RECORD_ATTR + super::ATTR_WORDS - 1;
    /// Number of the kernel's references to this record as a node of a mounted file system. Only the process
    /// that serves the mount changes it.
    pub const RECORD_LOOKUPS: usize = RECORD_ATTR + super::ATTR_WORDS;
    /// The kernel's number for the backing file of this record's readers (low half), and how often it is open
    /// (high half).
    pub const RECORD_PASSING: usize = RECORD_LOOKUPS + 1;
    /// First word of the path, NUL-padded, always with at least one NUL.
    pub const RECORD_NAME: usize = RECORD_PASSING + 1;
}

bitflags! {
    /// A record's bits beside its kind (bits 0 to 7) and error number (bits 8 to 23).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct State: u64 {
        /// The attributes are there.
        const ATTR = 1 << 32;
        /// A directory's listing is there and complete: a name that it lacks is absent.
        const LISTED = 1 << 33;
        /// The bytes that a loader maps are in the store.
        const LOADABLE = 1 << 34;
        /// All bytes are in the store.
        const WHOLE = 1 << 35;
        /// A passthrough path: the job changes it, and the source file is used.
        const PASSTHROUGH = 1 << 36;
        /// The job changes this directory's names: listings and absent names come from the source.
        const LISTING_PASSTHROUGH = 1 << 37;
        /// The directory can't be listed: each of its names is looked up singly.
        const UNLISTABLE = 1 << 38;
        /// A shared object of this machine's class and architecture.
        const NATIVE_OBJECT = 1 << 39;
        /// Executing the store's copy is the same as executing the source file (no set-ID bits, no file
        /// capabilities).
        const EXECUTABLE = 1 << 40;
        /// Starts with `#!`.
        const SCRIPT = 1 << 41;
        /// Everything below this directory is passed through too.
        const TREE_PASSTHROUGH = 1 << 42;
        /// The mirrors of all of the header's domains have the loadable bytes of this file; each name there
        /// leads to a copy for as long as the file is resident.
        const REPLICATED = 1 << 43;
        /// The same of all of its bytes.
        const REPLICATED_WHOLE = 1 << 44;
        /// The content is not stored, and processes read the source file.
        const DIRECT = 1 << 45;
        /// Processes under audit read the file in the node's mount, which fetches the blocks that they need.
        const IN_MOUNT = 1 << 46;
    }
}

impl State {
    /// All bits about stored content: they are cleared with it.
    pub const CONTENT: State = State::LOADABLE
        .union(State::WHOLE)
        .union(State::REPLICATED)
        .union(State::REPLICATED_WHOLE)
        .union(State::IN_MOUNT);

    /// All bits by which the source file serves a path, or names of a directory.
    pub const ANY_PASSTHROUGH: State =
        State::PASSTHROUGH.union(State::LISTING_PASSTHROUGH).union(State::TREE_PASSTHROUGH);

    /// Returns the state word for these bits.
    pub fn word(self, kind: Kind, errno: u16) -> u64 {
        self.bits() | kind as u64 | u64::from(errno) << 8
    }

    /// Splits a state word; a kind of a later version is unknown.
    pub fn from_word(word: u64) -> (State, Kind, u16) {
        let kind = Kind::from_number(word as u8).unwrap_or(Kind::Unknown);
        (State::from_bits_truncate(word), kind, (word >> 8) as u16)
    }
}

/// Sizes of a table's parts.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Geometry {
    /// Path slots, a power of two; at most half are used.
    pub slot_count: u64,
    /// Inode slots, a power of two; at most half are used.
    pub ino_slot_count: u64,
    /// Bytes for records, listings and strings.
    pub heap_bytes: u64,
}

impl Geometry {
    /// Returns the bytes of the whole table.
    pub fn total_bytes(&self) -> u64 {
        self.heap_at() + self.heap_bytes
    }

    /// Returns the offset of the path slots, in bytes.
    pub fn slots_at(&self) -> u64 {
        word::HEADER_WORDS as u64 * 8
    }

    /// Returns the offset of the inode slots, in bytes.
    pub fn ino_slots_at(&self) -> u64 {
        self.slots_at() + self.slot_count * 8
    }

    /// Returns the bytes that need memory from the start: all but the heap.
    pub fn heap_at(&self) -> u64 {
        self.ino_slots_at() + self.ino_slot_count * 8
    }

    /// Returns the header's words that are the same in every table of this version and these sizes.
    pub(super) fn constants(&self) -> [(usize, u64); 7] {
        [
            (word::VERSION, VERSION),
            (word::TOTAL_BYTES, self.total_bytes()),
            (word::SLOTS_AT, self.slots_at()),
            (word::SLOT_COUNT, self.slot_count),
            (word::INO_SLOTS_AT, self.ino_slots_at()),
            (word::INO_SLOT_COUNT, self.ino_slot_count),
            (word::HEAP_AT, self.heap_at()),
        ]
    }
}

impl Default for Geometry {
    /// Returns sizes for 131,072 paths.
    fn default() -> Geometry {
        Geometry { slot_count: 1 << 18, ino_slot_count: 1 << 17, heap_bytes: 256 << 20 }
    }
}

/// The contents of a table's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The session's generation.
    pub generation: u64,
    /// Included (`true`) and excluded directories.
    pub scope: Vec<(bool, Vec<u8>)>,
    /// The mirror's prefix.
    pub store: Vec<u8>,
    /// The daemon's socket.
    pub socket: Vec<u8>,
    /// The file with the clients' counters.
    pub counters: Vec<u8>,
    /// The store's device, major and minor.
    pub store_dev: (u32, u32),
    /// The daemon's view, which processes have to share.
    pub view: View,
    /// The largest file of which content is stored, if there is a limit.
    pub stored_file_bytes_max: Option<u64>,
    /// Whether programs that processes start in other processes are audited, too.
    pub follows_fork: bool,
}

/// A process's view of paths: a process that differs in any of this may find other files under the same
/// names, or other owners of the same files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The root directory's device, major and minor.
    pub root_dev: (u32, u32),
    /// The root directory's inode number.
    pub root_ino: u64,
    /// The number of the mount that contains the root directory; zero if the kernel does not report it.
    pub root_mnt_id: u64,
    /// The mount namespace's inode number; zero if it is unknown, and then no process shares the view.
    pub mnt_ns: u64,
    /// The user namespace's inode number, likewise.
    pub user_ns: u64,
}

impl Header {
    /// Returns the scope in the form of the table.
    pub fn scope_blob(&self) -> Vec<u8> {
        let mut blob = Vec::new();
        for (included, directory) in &self.scope {
            blob.push(if *included { b'+' } else { b'-' });
            blob.extend_from_slice(directory);
            blob.push(0);
        }
        blob
    }
}
