//! The attributes that a copy has from its source file.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;

use headwater_abi::Attr;
use rustix::fs::{Timespec, Timestamps};

/// The mode bits that a copy has from its source file, without set-user-ID and the like.
pub(super) const COPIED_MODE_BITS: u32 = 0o777;

/// Sets a complete copy's mode and times.
pub(super) fn finish(file: &File, attr: &Attr) -> io::Result<()> {
    rustix::fs::futimens(file, &times(attr))?;
    file.set_permissions(Permissions::from_mode(copied_mode(attr.mode)))
}

/// Returns the mode of a copy, given its source file's. The owner's read bit is always set, so that the daemon can send
/// the content.
pub fn copied_mode(mode: u32) -> u32 {
    mode & COPIED_MODE_BITS | 0o400
}

/// Returns the times of a copy, given its source file's attributes.
pub(super) fn times(attr: &Attr) -> Timestamps {
    Timestamps { last_access: timespec(attr.atime), last_modification: timespec(attr.mtime) }
}

pub(super) fn timespec((seconds, nanoseconds): (i64, u32)) -> Timespec {
    Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() }
}
