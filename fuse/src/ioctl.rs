//! The device's ioctls.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Result;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, Setter, ioctl, opcode};

use crate::wire::BackingMap;

const MAGIC: u8 = 229;
const CLONE: Opcode = opcode::read::<u32>(MAGIC, 0);
const BACKING_OPEN: Opcode = opcode::write::<BackingMap>(MAGIC, 1);
const BACKING_CLOSE: Opcode = opcode::write::<u32>(MAGIC, 2);

/// Makes `device`, which has no connection yet, a descriptor of `connection`'s.
pub(crate) fn clone(device: BorrowedFd<'_>, connection: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: FUSE_DEV_IOC_CLONE reads a u32 from its argument (`_IOR` notwithstanding).
    unsafe { ioctl(device, Setter::<CLONE, u32>::new(connection.as_raw_fd() as u32)) }
}

/// Registers a backing file and returns its number.
pub(crate) fn backing_open(device: BorrowedFd<'_>, file: BorrowedFd<'_>) -> Result<u32> {
    let map = BackingMap { fd: file.as_raw_fd(), ..BackingMap::default() };
    // SAFETY: FUSE_DEV_IOC_BACKING_OPEN reads a `struct fuse_backing_map`.
    unsafe { ioctl(device, BackingOpen(map)) }
}

/// Undoes [`backing_open`].
pub(crate) fn backing_close(device: BorrowedFd<'_>, number: u32) -> Result<()> {
    // SAFETY: FUSE_DEV_IOC_BACKING_CLOSE reads a u32.
    unsafe { ioctl(device, Setter::<BACKING_CLOSE, u32>::new(number)) }
}

/// As rustix's `Setter`, but its result is what the system call returns.
struct BackingOpen(BackingMap);

// SAFETY: the pointer is to the structure that the operation reads, and the result is not one.
unsafe impl Ioctl for BackingOpen {
    type Output = u32;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        BACKING_OPEN
    }

    fn as_ptr(&mut self) -> *mut core::ffi::c_void {
        (&raw mut self.0).cast()
    }

    unsafe fn output_from_ptr(output: IoctlOutput, _: *mut core::ffi::c_void) -> Result<u32> {
        Ok(output as u32)
    }
}
