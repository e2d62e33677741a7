//! Copies that follow their source files.
//!
//! A process that has a copy open or mapped keeps it when its path becomes passthrough, and would never see later
//! writes. So the copy is kept equal to the source file while it is in use. A thread is notified by the kernel of
//! changes on this node, checks once a second for changes by other nodes, and writes the differences into the copy.

mod copy;
#[cfg(test)]
mod tests;

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::{Errno, read, write};

use self::copy::Copy;
pub use self::copy::Followed;
use crate::mirror::Budget;

/// How often source files are checked, and whether the copies are in use.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a process may take from reading the table to opening the copy.
const GRACE: Duration = Duration::from_secs(5);
/// Copies that are followed at once.
const FOLLOWED_MAX: usize = 1024;
/// The inotify events of a changed file.
const CHANGES: WatchFlags = WatchFlags::MODIFY.union(WatchFlags::CLOSE_WRITE).union(WatchFlags::ATTRIB);

/// The thread, once a copy is followed.
#[derive(Debug, Default)]
pub struct Following {
    thread: Option<Arc<Mailbox>>,
    has_failed: bool,
}

/// New copies for the thread, which ends once it alone has the mailbox.
#[derive(Debug)]
struct Mailbox {
    new: Mutex<Vec<Followed>>,
    wake: OwnedFd,
}

impl Following {
    /// Keeps the copy equal to its source file until no process has it open.
    pub fn follow(&mut self, followed: Followed, budget: &Budget) {
        if self.thread.is_none() && !self.has_failed {
            match start(budget.clone()) {
                Ok(mailbox) => self.thread = Some(mailbox),
                Err(error) => {
                    tracing::warn!(%error, "the thread that follows changed files can't be started: open files will not show later writes. Raise the limit of processes (ulimit -u)");
                    self.has_failed = true;
                }
            }
        }
        let Some(mailbox) = &self.thread else { return };
        mailbox.new.lock().unwrap_or_else(PoisonError::into_inner).push(followed);
        mailbox.wake();
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        if let Some(mailbox) = self.thread.take() {
            let wake = mailbox.wake.try_clone();
            drop(mailbox);
            let _ = wake.map(|wake| write(wake, &1_u64.to_ne_bytes()));
        }
    }
}

impl Mailbox {
    fn wake(&self) {
        // A full counter means that the thread is awake.
        let _ = write(&self.wake, &1_u64.to_ne_bytes());
    }
}

fn start(budget: Budget) -> io::Result<Arc<Mailbox>> {
    let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let mailbox = Arc::new(Mailbox { new: Mutex::default(), wake });
    let mut follower = Follower::new(Arc::clone(&mailbox), budget)?;
    std::thread::Builder::new().name("follow".into()).spawn(move || while follower.round() {})?;
    Ok(mailbox)
}

/// The thread's state.
struct Follower {
    mailbox: Arc<Mailbox>,
    budget: Budget,
    inotify: OwnedFd,
    copies: Vec<Watched>,
    check_at: Instant,
}

struct Watched {
    copy: Copy,
    watch: Option<i32>,
    /// The kernel has reported a change that the copy lacks.
    is_due: bool,
}

impl Follower {
    fn new(mailbox: Arc<Mailbox>, budget: Budget) -> io::Result<Follower> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Follower { mailbox, budget, inotify, copies: Vec::new(), check_at: Instant::now() })
    }

    /// Waits for events and handles them. Returns false once the thread must end.
    fn round(&mut self) -> bool {
        self.wait();
        if Arc::strong_count(&self.mailbox) == 1 {
            return false;
        }
        self.take_new();
        self.take_changes();
        let is_check = Instant::now() >= self.check_at;
        if is_check {
            self.check_at = Instant::now() + CHECK_INTERVAL;
        }
        self.copies.retain_mut(|watched| {
            if !is_check && !watched.is_due {
                return true;
            }
            let result = watched.check(&self.inotify);
            if let Err(error) = &result {
                report(watched, error);
            }
            if !matches!(result, Ok(true)) {
                watched.unwatch(&self.inotify);
            }
            matches!(result, Ok(true))
        });
        true
    }

    fn wait(&self) {
        let is_due = self.copies.iter().any(|watched| watched.is_due);
        let until_check = self.check_at.saturating_duration_since(Instant::now());
        let most = if is_due { until_check.min(Duration::from_millis(10)) } else { until_check };
        let timeout = (!self.copies.is_empty()).then(|| Timespec::try_from(most).ok()).flatten();
        let mut ready = [PollFd::new(&self.inotify, PollFlags::IN), PollFd::new(&self.mailbox.wake, PollFlags::IN)];
        let _ = poll(&mut ready, timeout.as_ref());
        let _ = read(&self.mailbox.wake, &mut [0_u8; 8]);
    }

    fn take_new(&mut self) {
        let new = std::mem::take(&mut *self.mailbox.new.lock().unwrap_or_else(PoisonError::into_inner));
        for followed in new {
            if self.copies.iter().any(|watched| watched.copy.path() == followed.path()) {
                continue;
            }
            let copy = Copy::new(followed, &self.budget);
            if self.copies.len() >= FOLLOWED_MAX {
                // Most of many files that are removed at once are not open.
                if copy.is_in_use() {
                    tracing::warn!(path = %copy.path(), "too many open files change at once; processes that have this file open will not see its changes");
                }
                continue;
            }
            self.copies.push(Watched { copy, watch: None, is_due: true });
        }
    }

    /// Marks the copies whose changes the kernel has reported.
    fn take_changes(&mut self) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        loop {
            match events.next() {
                Ok(event) => {
                    let is_lost = event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW);
                    let of = |watched: &&mut Watched| is_lost || watched.watch == Some(event.wd());
                    self.copies.iter_mut().filter(of).for_each(|watched| watched.is_due = true);
                }
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}

impl Watched {
    /// Updates the copy if it is in use. Returns false if it is not, and no process can be about to open it.
    fn check(&mut self, inotify: &OwnedFd) -> io::Result<bool> {
        if !self.copy.is_in_use() {
            self.is_due = false;
            return Ok(self.copy.age() < GRACE);
        }
        if self.watch.is_none() {
            // Before the file is read, so that no change is missed.
            let link = format!("/proc/self/fd/{}", self.copy.source()?.as_fd().as_raw_fd());
            self.watch = inotify::add_watch(inotify, link, CHANGES).ok();
        }
        self.is_due = self.copy.update(self.is_due)?;
        Ok(true)
    }

    fn unwatch(&mut self, inotify: &OwnedFd) {
        if let Some(watch) = self.watch.take() {
            let _ = inotify::remove_watch(inotify, watch);
        }
    }
}

fn report(watched: &Watched, error: &io::Error) {
    let path = watched.copy.path();
    match error.kind() {
        // Processes that have a removed or replaced file open keep it, as on any file system.
        io::ErrorKind::NotFound => {}
        _ => {
            tracing::warn!(%path, %error, "processes that have this file open will not see later writes to it. If they must, exclude it with --exclude")
        }
    }
}
