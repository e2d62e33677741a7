//! The daemon's configuration of a mounted file system.

use std::path::PathBuf;
use std::sync::Arc;

use headwater_abi::Path;
use headwater_fuse::Negotiated;
use headwater_fuse::init::Opening;
use headwater_proto::Stored;
use headwater_store::Blocks;
use serde::{Deserialize, Serialize};

use crate::source_file::locks::handover::{LockHandover, TakenLock};
use crate::state::tables::OlderTable;

/// A mounted file system that the daemon serves, after INIT.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MountConfig {
    /// The directory that the mount shows.
    pub root: String,
    /// Where it is mounted; the daemon unmounts it if no supervisor is left.
    pub mount_point: PathBuf,
    /// Inherited descriptors of the connection, one for each worker.
    pub devices: Vec<i32>,
    /// The result of INIT.
    pub negotiated: Negotiated,
    /// How files are opened.
    pub opening: Opening,
    /// Writing goes to the source files; otherwise it is refused.
    pub is_writable: bool,
    /// Absolute link targets within the view are shown as relative ones, so that they stay in it.
    pub keeps_links_inside: bool,
    /// Processes under audit read large files in it, and the store's copies of others.
    #[serde(default)]
    pub is_beside_audit: bool,
    /// In a user namespace, which knows its user and one group: the user's other groups. Their files are shown with the
    /// primary group, so that the kernel grants access to the members, and what this user may write as its own.
    #[serde(default)]
    pub other_groups: Option<Vec<u32>>,
    /// Directories of the view that are shown empty.
    #[serde(default)]
    pub hidden: Vec<String>,
    /// For locks that outlive the daemon.
    #[serde(default)]
    pub locks: LocksConfig,
}

/// Inherited descriptors for locks; see [`LockHandover`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LocksConfig {
    /// The socket to the supervisor.
    pub supervisor: Option<i32>,
    /// The epoll instance.
    pub watch: Option<i32>,
    /// The locks that a predecessor has taken, and their openings.
    pub taken: Vec<(TakenLock, i32)>,
}

/// The parts from which a mount is served.
pub struct Start<'a> {
    /// The file system, after INIT.
    pub mount: &'a MountConfig,
    /// Descriptors that this process may have open.
    pub descriptors_max: usize,
    /// Continue from a predecessor.
    pub recover: bool,
    /// The session has other nodes, whose processes change files too.
    pub has_other_nodes: bool,
    /// The mirror's prefix.
    pub store: PathBuf,
    /// The journal of renamed and removed files that are in use.
    pub moves: PathBuf,
    /// Included and excluded directories.
    pub scope: Vec<(bool, Path)>,
    /// Tables of older generations that the kernel may still use nodes of, in order.
    pub older: Vec<OlderTable>,
    /// Locks of a predecessor.
    pub locks: LockHandover,
    /// Files of which some blocks are in the store.
    pub blocks: Arc<Blocks>,
    /// Larger files are fetched in blocks.
    pub whole_file_bytes_max: u64,
    /// The content that is stored; all other is read from the source files.
    pub stored: Stored,
    /// True if this machine can read the source files.
    pub has_source: bool,
}
