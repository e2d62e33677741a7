//! A node's configuration.

pub mod kinds;

use headwater_abi::wire::STRIPED_BLOCK_MIN;
use serde::{Deserialize, Serialize};

use self::kinds::Stored;
use crate::timeouts::DOUBLINGS_MAX;
use crate::topology::{Forest, Rank};

/// Which children get content that one of them requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// A first request sends it to all children: SPMD programs.
    Push,
    /// Only children on the path of the request: MPMD programs.
    Pull,
    /// Pull at first. What enough children request is pushed to the others too; while most decisions were for
    /// a push, new content is pushed at once.
    Adaptive,
}

/// Limits on what a node stores and does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of content that the store may hold.
    pub store_bytes_max: u64,
    /// The content that is stored; of all other, processes use the source file. The same on all nodes.
    pub stored: Stored,
    /// Bytes of a file above which the node compares its file system with the trees, and leaves such files of the file
    /// system to processes if that is faster.
    pub compared_file_bytes_min: u64,
    /// Bytes of a file above which processes that want content read the file in the node's mount, block by block.
    pub mounted_file_bytes_min: u64,
    /// Content may be in a cache of this node, which is asked first.
    pub has_cache: bool,
    /// Requests of clients that may wait at once; further ones are answered with a fallback.
    pub clients_waiting_max: usize,
    /// Pending requests; one that would exceed this fails.
    pub pending_max: usize,
    /// Pieces of content in transit over one link at once. Up to half of them may be pushed; a request beyond
    /// the limit fails.
    pub transfers_max: usize,
    /// Paths that a node has records of; requests beyond that are answered with a fallback.
    pub entries_max: usize,
    /// Paths without content beyond which unused records are forgotten.
    pub facts_max: usize,
    /// Bytes of listings beyond which those without known names are forgotten.
    pub listing_bytes_max: u64,
    /// Names of a directory above which its details are never requested at once.
    pub details_names_max: usize,
    /// Files of a directory that are read ahead of processes that read them in order; none if zero.
    pub ahead_files_max: usize,
    /// Bytes that are read ahead in one directory.
    pub ahead_bytes_max: u64,
    /// Blocks that are read ahead of a process that reads a large file in order; twice as many may be in
    /// transit.
    pub blocks_ahead_max: u32,
    /// Chunks in transit to one peer at once.
    pub chunks_in_flight_max: usize,
    /// Files that are read from the shared file system at once.
    pub reads_in_flight_max: usize,
    /// Symbolic links that are followed for one path, as in the kernel.
    pub links_followed_max: usize,
    /// Timeout of a request without progress, in milliseconds; its clients get a fallback.
    pub request_timeout_ms_max: u64,
    /// How long a lost parent may take to come back, in milliseconds, before the next ancestor is used; zero
    /// if no supervisor restarts it.
    pub parent_absence_ms_max: u64,
    /// Until when a parent that has never been seen may come up, in milliseconds of the node's clock, which
    /// begins at zero.
    pub starting_ms_max: u64,
    /// How long a parent that owes answers may be silent before it is probed, in milliseconds.
    pub quiet_ms_max: u64,
    /// How long a probed parent may take to answer, in milliseconds.
    pub probe_ms_max: u64,
    /// How long a parent that has sent wrong content gets no requests, in milliseconds.
    pub ban_ms: u64,
    /// Bytes of content above which a file is fetched block by block, through all trees.
    pub piece_bytes_max: u64,
    /// Blocks of such a file that are downloaded at once.
    pub blocks_downloading_max: usize,
    /// The first block that is read by the root of the tree that it goes down. The file's reader reads those
    /// before it, so that one node alone opens a file that is smaller. The same on all nodes.
    pub striped_block_min: u32,
}

impl Limits {
    /// Returns how many passthrough paths are remembered: half of all known paths. Beyond that, whole
    /// directories are passed through.
    pub fn passthrough_max(&self) -> usize {
        self.entries_max / 2
    }

    /// Returns the longest silence of a parent that owes answers, in milliseconds, after all doublings of the
    /// timeouts.
    pub fn silence_ms_max(&self) -> u64 {
        (self.quiet_ms_max + self.probe_ms_max) << DOUBLINGS_MAX
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            store_bytes_max: 4 << 30,
            stored: Stored::ALL,
            compared_file_bytes_min: u64::MAX,
            mounted_file_bytes_min: u64::MAX,
            has_cache: false,
            clients_waiting_max: 65_536,
            pending_max: 1 << 16,
            transfers_max: 1 << 17,
            entries_max: 1 << 17,
            facts_max: usize::MAX,
            listing_bytes_max: u64::MAX,
            details_names_max: 1 << 16,
            ahead_files_max: 512,
            ahead_bytes_max: 8 << 20,
            blocks_ahead_max: 16,
            chunks_in_flight_max: 8,
            reads_in_flight_max: 64,
            links_followed_max: 40,
            request_timeout_ms_max: 60_000,
            parent_absence_ms_max: 0,
            starting_ms_max: 10_000,
            quiet_ms_max: 300,
            probe_ms_max: 1200,
            ban_ms: 10_000,
            piece_bytes_max: 2 << 20,
            blocks_downloading_max: 16,
            striped_block_min: STRIPED_BLOCK_MIN,
        }
    }
}

/// A node's position and rules.
#[derive(Clone, Debug)]
pub struct Config {
    /// This node's rank.
    pub rank: Rank,
    /// The overlay's shape.
    pub forest: Forest,
    /// The session's identity, the same on all nodes.
    pub session: u128,
    /// The push policy.
    pub policy: Policy,
    /// Limits.
    pub limits: Limits,
    /// Directories in which the node may look paths up: (included, path); the longest match decides. Other
    /// paths are not served.
    pub scope: alloc::vec::Vec<(bool, headwater_abi::Path)>,
}
