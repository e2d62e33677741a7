//! Locks of a source file that is open for one holder.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::thread::JoinHandleExt;
use std::thread::JoinHandle;

use headwater_fuse::{Lock, LockKind};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Returns true if another lock excludes the one that was tried.
pub(super) fn is_excluded(result: Result<(), Errno>) -> bool {
    matches!(result, Err(Errno::AGAIN | Errno::ACCESS))
}

/// Takes a lock, or returns one, without waiting.
pub(super) fn apply(file: &OwnedFd, lock: &Lock) -> Result<(), Errno> {
    if lock.is_flock {
        let operation = match lock.kind {
            LockKind::Shared => FlockOperation::NonBlockingLockShared,
            LockKind::Exclusive => FlockOperation::NonBlockingLockExclusive,
            LockKind::Unlock => FlockOperation::Unlock,
        };
        return flock(file, operation);
    }
    command(file, libc::F_OFD_SETLK, &mut encode(lock))
}

/// Takes a lock as soon as nothing excludes it; EINTR after [`interrupt`].
pub(super) fn apply_waiting(file: &OwnedFd, lock: &Lock) -> Result<(), Errno> {
    match lock.kind {
        LockKind::Shared if lock.is_flock => flock(file, FlockOperation::LockShared),
        LockKind::Exclusive if lock.is_flock => flock(file, FlockOperation::LockExclusive),
        LockKind::Unlock => apply(file, lock),
        _ => command(file, libc::F_OFD_SETLKW, &mut encode(lock)),
    }
}

/// Makes [`interrupt`] end system calls of this thread.
pub(super) fn let_interrupt() -> Result<(), Errno> {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: all its fields are numbers, sets of bits and pointers that may be null.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
    // SAFETY: the handler does nothing, and no other is used for this signal. Without SA_RESTART calls end.
    let is_set = unsafe { libc::sigaction(interrupting(), &raw const action, std::ptr::null_mut()) } == 0;
    // SAFETY: the set is initialised before it is used. A process can inherit blocked signals.
    let is_unblocked = unsafe {
        let mut only: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut only);
        libc::sigaddset(&raw mut only, interrupting());
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const only, std::ptr::null_mut()) == 0
    };
    if is_set && is_unblocked { Ok(()) } else { Err(Errno::NOLCK) }
}

/// Interrupts the system call of a thread.
pub(super) fn interrupt(thread: &JoinHandle<()>) {
    // SAFETY: the thread's number is valid until the handle is given up.
    unsafe { libc::pthread_kill(thread.as_pthread_t() as libc::pthread_t, interrupting()) };
}

/// A signal that nothing else uses.
fn interrupting() -> libc::c_int {
    libc::SIGRTMIN() + 7
}

/// Returns a lock that excludes this one.
pub(super) fn find(file: &OwnedFd, lock: &Lock) -> Result<Option<Lock>, Errno> {
    let mut found = encode(lock);
    command(file, libc::F_OFD_GETLK, &mut found)?;
    let kind = match i32::from(found.l_type) {
        libc::F_RDLCK => LockKind::Shared,
        libc::F_WRLCK => LockKind::Exclusive,
        _ => return Ok(None),
    };
    let start = u64::try_from(found.l_start).unwrap_or_default();
    let end = u64::try_from(found.l_len).ok().filter(|len| *len > 0).map_or(Lock::END, |len| start + len - 1);
    Ok(Some(Lock { kind, start, end, ..*lock }))
}

/// The lock belongs to the opening, and not to this process, which has many.
fn encode(lock: &Lock) -> libc::flock {
    let kind = match lock.kind {
        LockKind::Shared => libc::F_RDLCK,
        LockKind::Exclusive => libc::F_WRLCK,
        LockKind::Unlock => libc::F_UNLCK,
    };
    let len = if lock.end == Lock::END { 0 } else { lock.end - lock.start + 1 };
    // SAFETY: all its fields are numbers.
    let mut encoded: libc::flock = unsafe { std::mem::zeroed() };
    encoded.l_type = kind as libc::c_short;
    encoded.l_whence = libc::SEEK_SET as libc::c_short;
    encoded.l_start = lock.start as libc::off_t;
    encoded.l_len = len as libc::off_t;
    encoded
}

fn command(file: &OwnedFd, command: libc::c_int, lock: &mut libc::flock) -> Result<(), Errno> {
    // SAFETY: the commands read and write one `flock`, which outlives the call.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, std::ptr::from_mut(lock)) };
    if result < 0 { Err(last_error()) } else { Ok(()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
