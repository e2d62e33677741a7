//! What a daemon is told of the file system that it serves.

use std::path::PathBuf;

use headwater_fuse::Negotiated;
use headwater_fuse::init::Opening;
use serde::{Deserialize, Serialize};

/// A mounted file system that the daemon serves. The mount stands and INIT is over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MountConfig {
    /// The directory that the mount shows.
    pub root: String,
    /// Where it is mounted, for unmounting it when nobody else can.
    pub mount_point: PathBuf,
    /// Inherited descriptors of the connection, one for each worker.
    pub devices: Vec<i32>,
    /// What was agreed on in INIT.
    pub negotiated: Negotiated,
    /// How files are opened.
    pub opening: Opening,
    /// Writing goes to the original; otherwise it is refused.
    pub is_writable: bool,
    /// Absolute link targets within the view are shown as relative ones, so that they stay in it.
    pub keeps_links_inside: bool,
    /// Groups of the user that the mount's user namespace lacks: their files are shown as the
    /// primary group's, so that the kernel lets their members in.
    #[serde(default)]
    pub shown_as_own_group: Vec<u32>,
    /// Directories of the view that are shown empty.
    #[serde(default)]
    pub hidden: Vec<String>,
}
