//! This process: its descriptors, and a second one like it.

use std::io;

use rustix::process::Pid;

/// Has no program inherit a descriptor, but for standard input, output and error, unless it is given one from
/// now on. Where the kernel can't do that (before Linux 5.11), they do.
pub fn inherit_nothing() {
    // SAFETY: it changes a flag of descriptors, and no memory; the flag matters to `execve` alone.
    unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}

/// Closes all descriptors but standard input, output and error. Where the kernel can't do that (before Linux
/// 5.9), they stay open.
///
/// Call it before anything is opened.
pub fn close_inherited() {
    // SAFETY: nothing in this process has a descriptor yet.
    unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 0u32) };
}

/// Which process this is.
#[derive(PartialEq, Eq)]
pub enum Side {
    /// The one that was there, with its child's number.
    Old(Pid),
    /// Its child.
    New,
}

/// Goes on in two processes.
///
/// Call it before any thread is started.
pub fn fork() -> io::Result<Side> {
    // SAFETY: this process has one thread, so the copy of it may do whatever this one may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Side::New),
        child => Pid::from_raw(child).map(Side::Old).ok_or_else(|| io::ErrorKind::InvalidData.into()),
    }
}
