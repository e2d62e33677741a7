//! Abandoned mounts: their connection has no server but still exists, because a killed daemon's thread hangs in the
//! kernel, waiting for an answer of its own process. Any access to such a mount blocks for ever.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use crate::child::state;

/// Returns true if no living process has the connection of this mount open; false if that is unknown.
pub(crate) fn is_abandoned(mount_point: &Path) -> bool {
    // The kernel's cached attributes suffice, so no server is asked.
    let status = statx(CWD, mount_point, AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC, StatxFlags::empty());
    let Ok(connection) = status.map(|status| status.stx_dev_minor) else { return false };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let is_process = |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes()[0].is_ascii_digit());
    !processes.filter(is_process).any(|process| may_serve(&process, connection))
}

/// Returns true if a process has the connection open, or is a Headwater process of which that is unknown.
fn may_serve(process: &Path, connection: u32) -> bool {
    if matches!(state(process), None | Some('Z' | 'X')) {
        return false;
    }
    let Ok(descriptors) = fs::read_dir(process.join("fdinfo")) else {
        return fs::read(process.join("cmdline")).is_ok_and(|line| line.starts_with(b"headwater\0"));
    };
    let number = |line: &str| line.strip_prefix("fuse_connection:").and_then(|number| number.trim().parse().ok());
    let has_it = |text: String| text.lines().filter_map(number).any(|number: u32| number == connection);
    descriptors.flatten().any(|entry| fs::read_to_string(entry.path()).is_ok_and(has_it))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    use headwater_fuse::Device;
    use headwater_fuse::mount::{Options, mount};

    use crate::namespace::{Channel, send_with_descriptors};
    use crate::stale::remove_stale;

    #[test]
    fn an_abandoned_mount_is_found_and_can_be_removed() {
        let directory = tempfile::tempdir().unwrap();
        let mounted = Device::open().and_then(|device| {
            let options = Options {
                source: "abandoned".into(),
                subtype: "headwater-test".into(),
                is_read_only: true,
                allows_others: false,
                read_bytes_max: 4096,
            };
            mount(&device, directory.path(), &options).map(|()| device)
        });
        let device = match mounted {
            Ok(device) => device,
            Err(error) => return println!("skipped: nothing can be mounted: {error}"),
        };
        assert!(!is_abandoned(directory.path()), "this process may serve it");
        // While it is in transit, no process has it open.
        let (own, other) = Channel::pair().unwrap();
        send_with_descriptors(own.as_fd(), b"x", &[device.as_fd()]).unwrap();
        drop(device);
        // A child that another test forked meanwhile has it open, too, until it executes its program or ends.
        let is_found = (0..200).any(|_| {
            let is_found = is_abandoned(directory.path());
            if !is_found {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            is_found
        });
        remove_stale(directory.path()).unwrap();
        drop(other);
        assert!(is_found);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
