//! Threads that ask again: what they wait for may come from outside of the session.
//!
//! A session is a snapshot, in which a name that was absent stays absent. But a program may ask for a file again and
//! again until its user or another job makes it, or for a change of one. So the kernel uses an answer of the snapshot
//! for a limited time. If the thread that has asked for a path asks again after that, its source file is compared with
//! the answer; if they differ, the path becomes passthrough. Processes that start later and ask for the same paths
//! are other threads, and cause no look-up on the shared file system.
//!
//! Network file systems do the same with limits of this order: `acregmin` and `acregmax` of nfs(5).

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use headwater_abi::{Path, hash};
use headwater_fuse::reply::FOREVER;

/// How long the kernel uses an answer that a name is absent.
const ABSENT_TTL: Duration = Duration::from_secs(5);
/// How long the kernel uses other names and attributes. Each that is used again then costs a request.
const PRESENT_TTL: Duration = Duration::from_secs(10);
/// The least time between two comparisons of a path.
const INTERVAL: Duration = Duration::from_secs(4);
/// Threads that compare at once: half of those that serve a mount, because a file system that hangs holds them.
const COMPARING_MAX: usize = 2;
/// Paths that are remembered. When there are more, all are forgotten.
const PATHS_MAX: usize = 1 << 14;

/// Which thread has asked for which path.
#[derive(Debug)]
pub(crate) struct Polls {
    /// By the path's hash.
    asked: Mutex<HashMap<u64, Asked>>,
    comparing: AtomicUsize,
    /// False if no path can become passthrough, or this machine has no source files.
    is_on: bool,
}

/// The last thread that asked for a path, and when it first did or the answer was compared.
#[derive(Clone, Copy, Debug)]
struct Asked {
    thread: u32,
    at: Instant,
}

impl Polls {
    /// Makes the state of a mount. Off, no thread is noticed.
    pub(crate) fn new(is_on: bool) -> Polls {
        Polls { asked: Mutex::default(), comparing: AtomicUsize::new(0), is_on }
    }

    /// Returns how long the kernel may use an answer of the snapshot.
    pub(crate) fn ttl(&self, is_absent: bool) -> Duration {
        match self.is_on {
            true if is_absent => ABSENT_TTL,
            true => PRESENT_TTL,
            false => FOREVER,
        }
    }

    /// Notes that a thread asks for a path. Returns true if it has asked before, and the answer is to be compared.
    pub(crate) fn note(&self, path: &Path, thread: u32, now: Instant) -> bool {
        if !self.is_on {
            return false;
        }
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.len() >= PATHS_MAX {
            asked.clear();
        }
        let last = asked.entry(hash::bytes(path.as_bytes())).or_insert(Asked { thread, at: now });
        let is_again = last.thread == thread;
        let is_due = is_again && now.duration_since(last.at) >= INTERVAL;
        if is_due || !is_again {
            *last = Asked { thread, at: now };
        }
        is_due
    }

    /// Compares, unless enough threads do so already: then as if nothing had changed.
    pub(crate) fn compare(&self, differs: impl FnOnce() -> bool) -> bool {
        let is_free = self.comparing.fetch_add(1, Ordering::Relaxed) < COMPARING_MAX;
        let differs = is_free && differs();
        self.comparing.fetch_sub(1, Ordering::Relaxed);
        differs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_thread_is_due_after_the_interval() {
        let polls = Polls::new(true);
        let path = Path::new(b"/sw/stop").unwrap();
        let start = Instant::now();
        let asks = |thread, after| polls.note(&path, thread, start + after);
        assert!(!asks(1, Duration::ZERO) && !asks(1, INTERVAL / 2));
        assert!(asks(1, INTERVAL), "from the first time on");
        assert!(!asks(1, INTERVAL * 3 / 2) && asks(1, INTERVAL * 2), "from the comparison on");
        assert!(!asks(2, INTERVAL * 4), "another thread");
        assert!(!asks(1, INTERVAL * 4) && asks(1, INTERVAL * 5));
    }

    #[test]
    fn some_threads_are_left_to_serve() {
        let polls = Polls::new(true);
        let third = || polls.compare(|| unreachable!("two compare"));
        assert!(polls.compare(|| polls.compare(|| !third())) && polls.compare(|| true));
    }

    #[test]
    fn the_memory_is_bounded() {
        let polls = Polls::new(true);
        for number in 0..2 * PATHS_MAX {
            polls.note(&Path::new(format!("/sw/{number}").as_bytes()).unwrap(), 1, Instant::now());
        }
        assert!(polls.asked.lock().unwrap().len() <= PATHS_MAX);
    }
}
