//! This process: its descriptors, and a second one like it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

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

/// Closes all descriptors but standard input, output and error, and this one. Where the kernel can't do that (before
/// Linux 5.9), they stay open.
///
/// Call it before anything is opened.
pub fn close_but(number: u32) {
    for (first, last) in [(3, number.saturating_sub(1)), (number.saturating_add(1).max(3), u32::MAX)] {
        if first <= last {
            // SAFETY: nothing in this process has a descriptor yet.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0u32) };
        }
    }
}

/// A write to what nobody reads ends this process, as it does others; Rust's ignore the signal.
pub fn restore_sigpipe() {
    // SAFETY: it is a default action, which runs no code of this process.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Sends a signal to the process with this descriptor, `to_group`: to its group, where the kernel can do that (from
/// Linux 6.9 on). One that has ended needs none.
pub fn signal(process: &OwnedFd, number: i32, to_group: bool) {
    const PIDFD_SIGNAL_PROCESS_GROUP: u32 = 4;
    let send = |flags: u32| {
        let none = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: it reads nothing but its arguments.
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), number, none, flags) }
    };
    if !to_group || send(PIDFD_SIGNAL_PROCESS_GROUP) != 0 {
        send(0);
    }
}

/// Ends this process by a signal, without a core file.
pub fn end_by(number: i32) -> ! {
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
    // SAFETY: the set is this function's own, and filled before it is used; a default action runs no code of this
    // process.
    unsafe {
        let mut only = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut only);
        libc::sigaddset(&raw mut only, number);
        libc::signal(number, libc::SIG_DFL);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const only, std::ptr::null_mut());
        libc::raise(number);
    }
    // It did not end it.
    std::process::exit(128 + number)
}

/// Signals that this thread takes no notice of until this ends; those that have come meanwhile come then. A process that
/// is made meanwhile holds them, too.
pub struct BlockedSignals(libc::sigset_t);

/// Holds signals back until whoever is to hear them listens.
pub fn block_signals(numbers: &[i32]) -> BlockedSignals {
    // SAFETY: the sets are this function's own, and filled before they are used; a mask runs no code of this process.
    unsafe {
        let (mut blocked, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigemptyset(&raw mut blocked);
        for &number in numbers {
            libc::sigaddset(&raw mut blocked, number);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, &raw mut before);
        BlockedSignals(before)
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: it is the mask that this thread had; what is called by a signal now was there to be called.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}

/// Which process this is.
#[derive(PartialEq, Eq)]
pub enum Side {
    /// The one that was there, with its child's number.
    Parent(Pid),
    /// Its child.
    Child,
}

/// Goes on in two processes.
///
/// Call it before any thread is started.
pub fn fork() -> io::Result<Side> {
    // SAFETY: this process has one thread, so the copy of it may do whatever this one may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Side::Child),
        child => Pid::from_raw(child).map(Side::Parent).ok_or_else(|| io::ErrorKind::InvalidData.into()),
    }
}
