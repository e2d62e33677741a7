//! Threads that wait for a lock each, in the kernel: so those who want a lock on all nodes get it in turn, and the
//! shared file system is not asked again and again.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use headwater_fuse::Lock;
use rustix::io::Errno;

use super::operations::{apply_waiting, interrupt, let_interrupt};
use super::queue::Locks;

/// Ample for one system call.
const STACK_BYTES: usize = 64 << 10;

/// A thread that waits for a lock.
pub(super) struct Waiter {
    thread: JoinHandle<()>,
    is_cancelled: Arc<AtomicBool>,
}

impl Waiter {
    /// Starts to wait for a lock of `file`, for the request `unique`. The keeper gets the result.
    pub(super) fn start(locks: &Arc<Locks>, unique: u64, file: Arc<OwnedFd>, lock: Lock) -> io::Result<Waiter> {
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let (locks, cancelled) = (Arc::clone(locks), Arc::clone(&is_cancelled));
        let wait = move || {
            let result = let_interrupt().and_then(|()| {
                loop {
                    if cancelled.load(Ordering::Acquire) {
                        break Err(Errno::INTR);
                    }
                    match apply_waiting(&file, &lock) {
                        Err(Errno::INTR) => {}
                        result => break result,
                    }
                }
            });
            drop(file);
            locks.send(|arrived| arrived.ended.push((unique, result)));
        };
        let thread = Builder::new().name("mount-lock".into()).stack_size(STACK_BYTES).spawn(wait)?;
        Ok(Waiter { thread, is_cancelled })
    }

    /// Ends the waiting. It may miss that just before it waits: to be repeated until the keeper has its result.
    pub(super) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
        interrupt(&self.thread);
    }
}
