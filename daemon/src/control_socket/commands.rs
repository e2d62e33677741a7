//! The constant part of the answers on the control socket.

use headwater_mount::MountConfig;

use super::protocol::PathText;
use super::stats::MountStats;
use crate::config::Config;

/// What does not change while a daemon runs.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) session: String,
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    pub(crate) mount: Option<MountStats>,
}

impl About {
    /// Takes it from `config`.
    pub(crate) fn new(config: &Config) -> About {
        About {
            session: config.session.into(),
            rank: config.rank,
            ranks: config.ranks,
            mount: config.mount.as_ref().map(about_mount),
        }
    }
}

fn about_mount(mount: &MountConfig) -> MountStats {
    MountStats {
        mount_point: PathText::from(&*mount.mount_point),
        root: PathText::Text(mount.root.clone()),
        opening: format!("{:?}", mount.opening).to_lowercase(),
        is_writable: mount.is_writable,
    }
}
