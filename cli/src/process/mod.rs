//! Descriptors, signals and forking of this process.

pub mod inherited;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::process::{Child, Command};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::process::Pid;

/// Returns the time of this machine's monotonic clock, in microseconds. It is the same for all processes.
pub fn monotonic_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

/// Sets close-on-exec on all descriptors but standard input, output and error. Without effect before Linux 5.11.
pub fn inherit_nothing() {
    // SAFETY: it changes a flag of descriptors, and no memory; the flag matters to `execve` alone.
    unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}

/// Closes all descriptors but standard input, output and error. Without effect before Linux 5.9.
///
/// Call it before anything is opened.
pub fn close_inherited() {
    // SAFETY: no code of this process uses a descriptor yet.
    unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 0u32) };
}

/// Closes all descriptors but standard input, output and error, and `number`. Without effect before Linux 5.9.
///
/// Call it before anything is opened.
pub fn close_but(number: u32) {
    for (first, last) in [(3, number.saturating_sub(1)), (number.saturating_add(1).max(3), u32::MAX)] {
        if first <= last {
            // SAFETY: no code of this process uses a descriptor yet.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0u32) };
        }
    }
}

/// Starts a background process that inherits these descriptors, and of its starter's caller only standard input, output
/// and error: a reader of another pipe of the caller's must not wait for it.
///
/// No other process may be started meanwhile.
pub fn spawn_with(command: &mut Command, descriptors: &[BorrowedFd<'_>]) -> io::Result<Child> {
    let callers = callers_descriptors();
    callers.iter().try_for_each(|fd| fcntl_setfd(fd, FdFlags::CLOEXEC))?;
    descriptors.iter().try_for_each(|fd| fcntl_setfd(fd, FdFlags::empty()))?;
    let spawned = command.spawn();
    descriptors.iter().try_for_each(|fd| fcntl_setfd(fd, FdFlags::CLOEXEC))?;
    callers.iter().try_for_each(|fd| fcntl_setfd(fd, FdFlags::empty()))?;
    spawned
}

/// Returns the descriptors that programs inherit, but standard input, output and error. Empty if `/proc` can't be read.
fn callers_descriptors() -> Vec<BorrowedFd<'static>> {
    let numbers = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let numbers = numbers.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<RawFd>().ok());
    let numbers: Vec<_> = numbers.filter(|&number| number > 2).collect();
    // SAFETY: what this process opens is closed on exec. So a descriptor that is not was open before this process
    // began, nothing in it knows of it, and it stays open. Of the others only the flag is read, which fails with EBADF
    // if one has been closed since.
    let descriptors = numbers.into_iter().map(|number| unsafe { BorrowedFd::borrow_raw(number) });
    descriptors.filter(|fd| fcntl_getfd(fd).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC))).collect()
}

/// Restores the default action of SIGPIPE, which Rust programs ignore.
pub fn restore_sigpipe() {
    // SAFETY: it is a default action, which runs no code of this process.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Sends a signal of any number, real-time ones included.
pub fn kill(process: Pid, number: i32) {
    // SAFETY: it reads nothing but its arguments.
    unsafe { libc::kill(process.as_raw_nonzero().get(), number) };
}

/// Sends a signal to the process of this pidfd; `to_group`: to its group, from Linux 6.9 on. Does nothing if the
/// process has ended.
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

/// Returns the parent of a process; `None` if the process has ended, or its parent is in another namespace.
pub fn parent_of(process: Pid) -> Option<Pid> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).ok()?;
    // The name before may have any characters.
    let (_, rest) = stat.rsplit_once(')')?;
    Pid::from_raw(rest.split_whitespace().nth(1)?.parse().ok()?)
}

/// Ends this process by a signal. It leaves no core file, also where a program takes these.
pub fn end_by(number: i32) -> ! {
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
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
    // The signal did not end this process.
    std::process::exit(128 + number)
}

/// Signals that are blocked until this is dropped. Pending ones are delivered then. Child processes inherit the mask.
pub struct BlockedSignals(libc::sigset_t);

/// Blocks signals until their handlers are installed.
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
        // SAFETY: it is this thread's previous mask; signal handlers are installed by then.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}

/// The process after a fork.
#[derive(PartialEq, Eq)]
pub enum Side {
    /// The parent, with its child's PID.
    Parent(Pid),
    /// The child.
    Child,
}

/// Forks this process.
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
