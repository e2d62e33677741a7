//! The daemon's configuration of a mounted file system.

use std::path::PathBuf;

use headwater_fuse::Negotiated;
use headwater_fuse::init::Opening;
use serde::{Deserialize, Serialize};

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
    /// Groups of the user that the mount's user namespace lacks. Their files are shown with the primary group, so that
    /// the kernel grants access to the members.
    #[serde(default)]
    pub shown_as_own_group: Vec<u32>,
    /// Directories of the view that are shown empty.
    #[serde(default)]
    pub hidden: Vec<String>,
}
