//! Mounts whose servers have died.

use headwater_supervisor::{remove_stale, stale_mounts};

use crate::message::log;

/// Removes this user's mounts whose servers have died.
pub fn remove_stale_mounts() {
    for mount_point in stale_mounts().unwrap_or_default() {
        if let Err(error) = remove_stale(&mount_point) {
            log(format_args!("warning: the dead mount at {} can't be removed: {error}", mount_point.display()));
        }
    }
}
