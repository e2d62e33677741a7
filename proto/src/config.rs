//! What a node is told when it is made.

use crate::timeouts::DOUBLINGS_MAX;
use crate::topology::{Forest, Rank};

/// Who gets what a child asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// A first request is sent to everybody: SPMD programs.
    Push,
    /// Only along the path of the request: MPMD programs.
    Pull,
    /// Pull at first; what enough children ask for goes to the others too, and while that proves
    /// right, requests are pushed at once.
    Adaptive,
}

/// Bounds on what a node holds and does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of content that the store may hold.
    pub store_bytes_max: u64,
    /// Requests of clients that may wait at once; more are told to use the original.
    pub clients_waiting_max: usize,
    /// Questions under way at once; what would take more can't be had then.
    pub pending_max: usize,
    /// Pieces of content on their way over one link at once. As many as half of them may be sent unasked; what is
    /// asked for beyond them can't be had then.
    pub transfers_max: usize,
    /// Paths that a node keeps knowledge of; more are told to use the original.
    pub entries_max: usize,
    /// Paths without content beyond which knowledge that nobody uses is forgotten.
    pub facts_max: usize,
    /// Bytes of listings beyond which those are forgotten of whose names nothing is known.
    pub listing_bytes_max: u64,
    /// Names of a directory above which the facts about all of them are never asked for at once.
    pub details_names_max: usize,
    /// Files of a directory that are asked for ahead of processes that read them in order; none if
    /// zero.
    pub ahead_files_max: usize,
    /// Bytes that are asked for ahead in one directory.
    pub ahead_bytes_max: u64,
    /// Blocks that are asked for ahead of a process that reads a large file in order; twice as many
    /// may be under way.
    pub blocks_ahead_max: u32,
    /// Chunks on their way to one peer at once.
    pub chunks_in_flight_max: usize,
    /// Files that are read from the shared file system at once.
    pub reads_in_flight_max: usize,
    /// Symbolic links that one path is followed through, as in the kernel.
    pub links_followed_max: usize,
    /// How long a request may go without progress before clients are told to use the original,
    /// in milliseconds.
    pub request_timeout_ms_max: u64,
    /// How long a parent that was lost may take to come back, in milliseconds; zero where nobody starts
    /// it again. Then its parent is turned to.
    pub parent_absence_ms_max: u64,
    /// Until when a parent that has never been seen may come up, in milliseconds of the node's clock, which
    /// begins at zero.
    pub starting_ms_max: u64,
    /// How long a parent that owes answers may be silent before it is probed, in milliseconds.
    pub quiet_ms_max: u64,
    /// How long it may then take to show that it lives, in milliseconds.
    pub probe_ms_max: u64,
    /// How long nothing is asked of a parent that has sent wrong content, in milliseconds.
    pub ban_ms: u64,
    /// Bytes of content above which a file is fetched block by block, through all trees.
    pub piece_bytes_max: u64,
    /// Blocks that are fetched at once of such a file.
    pub blocks_downloading_max: usize,
}

impl Limits {
    /// Paths that are remembered as live: half of those of which anything is known, so that what is served
    /// has the other half. Beyond that, directories go live as a whole.
    pub fn passthrough_max(&self) -> usize {
        self.entries_max / 2
    }

    /// How long a parent that owes answers may be silent at most until it is given up, in milliseconds, however
    /// often others were given up too early.
    pub fn silence_ms_max(&self) -> u64 {
        (self.quiet_ms_max + self.probe_ms_max) << DOUBLINGS_MAX
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            store_bytes_max: 4 << 30,
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
        }
    }
}

/// A node's place and rules.
#[derive(Clone, Debug)]
pub struct Config {
    /// This node's rank.
    pub rank: Rank,
    /// The overlay's shape.
    pub forest: Forest,
    /// The session's identity, the same on all nodes.
    pub session: u128,
    /// Who gets what.
    pub policy: Policy,
    /// Bounds.
    pub limits: Limits,
    /// Directories through which the node may look paths up: (included, path); the longest match
    /// decides. Paths elsewhere are the original's.
    pub scope: alloc::vec::Vec<(bool, headwater_abi::Path)>,
}
