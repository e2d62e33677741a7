//! Attributes from statx().

use std::os::fd::AsFd;

use headwater_abi::Attr;
use headwater_abi::listing::d_type;
use rustix::fs::{AtFlags, FileType, Statx, StatxFlags, statx};
use rustix::io::Errno;

/// All fields of [`Attr`].
pub const ATTR_FIELDS: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME).union(StatxFlags::MNT_ID);

/// Returns these attributes of `name` in `directory`, or of `directory` itself if `name` is empty. Triggers no
/// automount.
pub fn attr_at(directory: impl AsFd, name: &[u8], wanted: StatxFlags) -> Result<Attr, Errno> {
    let flag = if name.is_empty() { AtFlags::EMPTY_PATH } else { AtFlags::SYMLINK_NOFOLLOW };
    statx(directory, name, flag | AtFlags::NO_AUTOMOUNT, wanted).map(|statx| attr_of(&statx))
}

/// Returns the number of a file type in listings.
pub fn d_type_of(file_type: FileType) -> u8 {
    match file_type {
        FileType::Unknown => d_type::UNKNOWN,
        // `DT_*` is the file type of the mode, shifted.
        known => (known.as_raw_mode() >> 12) as u8,
    }
}

fn attr_of(statx: &Statx) -> Attr {
    Attr {
        mode: statx.stx_mode.into(),
        nlink: statx.stx_nlink,
        uid: statx.stx_uid,
        gid: statx.stx_gid,
        ino: statx.stx_ino,
        dev_major: statx.stx_dev_major,
        dev_minor: statx.stx_dev_minor,
        rdev_major: statx.stx_rdev_major,
        rdev_minor: statx.stx_rdev_minor,
        size: statx.stx_size,
        blocks: statx.stx_blocks,
        blksize: statx.stx_blksize,
        mask: statx.stx_mask,
        attributes: statx.stx_attributes.bits(),
        attributes_mask: statx.stx_attributes_mask.bits(),
        atime: (statx.stx_atime.tv_sec, statx.stx_atime.tv_nsec),
        mtime: (statx.stx_mtime.tv_sec, statx.stx_mtime.tv_nsec),
        ctime: (statx.stx_ctime.tv_sec, statx.stx_ctime.tv_nsec),
        btime: (statx.stx_btime.tv_sec, statx.stx_btime.tv_nsec),
        mnt_id: statx.stx_mnt_id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_directory_entries_are_the_kernels() {
        use headwater_abi::listing::d_type::{DIR, FILE, LINK, UNKNOWN};
        let given = [FileType::Directory, FileType::RegularFile, FileType::Symlink, FileType::Unknown];
        assert_eq!(given.map(d_type_of), [DIR, FILE, LINK, UNKNOWN]);
    }
}
