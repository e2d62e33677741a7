//! Attributes from statx().

use headwater_abi::Attr;
use rustix::fs::Statx;

/// Converts the result of statx().
pub fn attr_of(statx: &Statx) -> Attr {
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
