//! What a supervisor is told when it starts, as one line of JSON on standard input.

use std::path::PathBuf;

use headwater_daemon::Config;
use headwater_fuse::init::Opening;
use serde::{Deserialize, Serialize};

/// What `/proc/mounts` has behind the file system's type: `fuse.headwater`.
pub(crate) const SUBTYPE: &str = "headwater";

/// A node's daemon and the mounted file system that it serves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SupervisorConfig {
    /// The daemon's configuration; the supervisor adds [`Config::mount`] and [`Config::recover`].
    ///
    /// Without [`Config::lifeline_fd`] the supervisor is the owner of the session: its daemon goes
    /// when it goes.
    pub daemon: Config,
    /// How processes come to the file system.
    pub via: Via,
    /// How files are opened. Without it, a mount that stays has the quicker way on this machine, which is
    /// measured; a job's namespace, which must be there quickly, has no-open: its processes open the same files.
    #[serde(default)]
    pub opening: Option<Opening>,
    /// Threads that answer the kernel.
    #[serde(default = "workers_default")]
    pub workers: u32,
}

/// How processes come to a mounted file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// Below a directory of their own mount namespace, read-only.
    Mount(MountVia),
    /// In a mount namespace of their own, under the original paths; writing goes to the originals.
    Namespace(NamespaceVia),
}

/// A mount that everybody (of this user) sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountVia {
    /// An existing directory.
    pub mount_point: PathBuf,
    /// The directory that it shows, canonical.
    pub root: String,
    /// Directories of the view that are shown empty.
    pub hidden: Vec<String>,
    /// Other users may enter, as far as the files' modes allow.
    #[serde(default)]
    pub allows_others: bool,
    /// The mount point was made for this, and goes with the mount.
    #[serde(default)]
    pub is_own_directory: bool,
}

/// A namespace that the node's processes share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceVia {
    /// Make a user namespace as well, since this user may not make a mount namespace alone.
    pub has_user_namespace: bool,
    /// Other users may enter, as far as the files' modes allow.
    #[serde(default)]
    pub allows_others: bool,
}

/// Threads that answer the kernel, unless told otherwise.
pub const WORKERS_DEFAULT: u32 = 4;

fn workers_default() -> u32 {
    WORKERS_DEFAULT
}
