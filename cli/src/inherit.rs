//! What programs that this process starts inherit.

/// Has no program inherit a descriptor, but for standard input, output and error, unless it is given one from
/// now on. Where the kernel can't do that (before Linux 5.11), they do.
pub fn nothing() {
    // SAFETY: it changes a flag of descriptors, and no memory; the flag matters to `execve` alone.
    unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}
