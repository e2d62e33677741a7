//! What a copy has of its original's attributes.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;

use headwater_abi::Attr;
use rustix::fs::{Timespec, Timestamps};

/// Bits of an original's mode that its copy keeps: never set-user-ID and its like.
pub(super) const COPIED_MODE_BITS: u32 = 0o777;

/// Gives a complete copy its original's mode and times.
pub(super) fn finish(file: &File, attr: &Attr) -> io::Result<()> {
    rustix::fs::futimens(file, &times(attr))?;
    file.set_permissions(Permissions::from_mode(copied_mode(attr.mode)))
}

/// The mode of the copy of a file that has this mode. The owner's read bit stays, so that the daemon can send the
/// content on.
pub fn copied_mode(mode: u32) -> u32 {
    mode & COPIED_MODE_BITS | 0o400
}

/// The times of the original, for its copy.
pub(super) fn times(attr: &Attr) -> Timestamps {
    Timestamps { last_access: timespec(attr.atime), last_modification: timespec(attr.mtime) }
}

/// The times of the original, for its copy.
pub(super) fn timespec((seconds, nanoseconds): (i64, u32)) -> Timespec {
    Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() }
}
