//! Whether a directory can be removed.
//!
//! A client of NFS gives a removed file another name, `.nfs…`, as long as something on the machine has it open. Here the
//! daemon has, until the kernel has forgotten the file: if no process has it open, that is a moment later.

use std::time::{Duration, Instant};

use rustix::fs::{Dir, OFlags, fstatfs};
use rustix::io::Errno;

use crate::source_file::Target;

/// How long such files may stay. Beyond it, a process has one open.
const TIMEOUT: Duration = Duration::from_millis(500);
/// The time between two tries.
const INTERVAL: Duration = Duration::from_millis(2);
/// `NFS_SUPER_MAGIC` of linux/magic.h.
const NFS: u32 = 0x6969;
/// The beginning of these names.
const PREFIX: &[u8] = b".nfs";

/// Tries again to remove a directory, which was not empty, while it has only such files.
pub(super) fn remove_when_empty(directory: &Target, remove: impl Fn() -> Result<(), Errno>) -> Result<(), Errno> {
    let start = Instant::now();
    while is_on_nfs(directory) && start.elapsed() < TIMEOUT && !has_names(directory) {
        std::thread::sleep(INTERVAL);
        match remove() {
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            result => return result,
        }
    }
    Err(Errno::NOTEMPTY)
}

fn is_on_nfs(directory: &Target) -> bool {
    fstatfs(&*directory.fd).is_ok_and(|statfs| statfs.f_type as u32 == NFS)
}

/// Returns true if this is a directory that has names, of such files excepted.
pub(super) fn has_names(target: &Target) -> bool {
    let names = target.open(OFlags::RDONLY | OFlags::DIRECTORY).and_then(Dir::new);
    let is_silly = |name: &[u8]| matches!(name, b"." | b"..") || name.starts_with(PREFIX);
    names.is_ok_and(|names| names.flatten().any(|entry| !is_silly(entry.file_name().to_bytes())))
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;

    #[test]
    fn files_that_are_left_do_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let target = || Target::opened(OwnedFd::from(std::fs::File::open(directory.path()).unwrap())).unwrap();
        assert!(!has_names(&target()));
        std::fs::write(directory.path().join(".nfs0000000000a1"), "").unwrap();
        assert!(!has_names(&target()));
        std::fs::write(directory.path().join("file"), "").unwrap();
        assert!(has_names(&target()));
    }

    #[test]
    fn elsewhere_nothing_is_tried_again() {
        let directory = tempfile::tempdir().unwrap();
        let target = Target::opened(OwnedFd::from(std::fs::File::open(directory.path()).unwrap())).unwrap();
        assert_eq!(remove_when_empty(&target, || unreachable!("it is not NFS")), Err(Errno::NOTEMPTY));
    }
}
