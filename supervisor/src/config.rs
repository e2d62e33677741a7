//! A supervisor's configuration, one line of JSON on standard input.

use std::path::PathBuf;

use headwater_daemon::Config;
use headwater_fuse::init::Opening;
use serde::{Deserialize, Serialize};

/// The file system's subtype; `/proc/mounts` shows `fuse.headwater`.
pub(crate) const SUBTYPE: &str = "headwater";

/// A node's daemon and the mounted file system that it serves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SupervisorConfig {
    /// The daemon's configuration; the supervisor adds [`Config::mount`] and [`Config::recover`].
    ///
    /// Without [`Config::lifeline_fd`] the supervisor is the session's owner: the daemon ends with it.
    pub daemon: Config,
    /// How processes reach the file system.
    pub via: Via,
    /// How files are opened. A job's namespace can't have passthrough, since its processes write.
    pub opening: Opening,
    /// Threads that serve FUSE requests.
    #[serde(default = "workers_default")]
    pub workers: u32,
}

/// How processes reach a mounted file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// Below a directory of their mount namespace, read-only.
    Mount(MountVia),
    /// In a separate mount namespace, under the source paths; writing goes to the source files.
    Namespace(NamespaceVia),
}

/// A mount that all processes of the user see.
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
    /// See [`MountConfig::is_beside_audit`](headwater_mount::MountConfig::is_beside_audit).
    #[serde(default)]
    pub is_beside_audit: bool,
    /// The mount point was created for this, and is removed with the mount.
    #[serde(default)]
    pub is_own_directory: bool,
}

/// A namespace that the node's processes share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceVia {
    /// Create a user namespace too, because this user may not create a mount namespace alone.
    pub has_user_namespace: bool,
    /// Other users may enter, as far as the files' modes allow.
    #[serde(default)]
    pub allows_others: bool,
}

/// The default number of threads that serve FUSE requests.
pub const WORKERS_DEFAULT: u32 = 4;

fn workers_default() -> u32 {
    WORKERS_DEFAULT
}
