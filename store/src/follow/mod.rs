//! Copies that follow their originals.
//!
//! A process that has opened or mapped a copy keeps it when its path goes live, and would never see what
//! others write from then on. So the copy's inode is kept as the original is, for as long as somebody has it: a
//! thread hears of the kernel when the original changes on this node, looks once a second for what other
//! nodes change, and writes what differs into the copy.

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

/// How often originals are looked at, and whether somebody still has the copies open.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a process may take from the table to its copy.
const GRACE: Duration = Duration::from_secs(5);
/// Copies that follow at once.
const FOLLOWED_MAX: usize = 1024;
/// What a change of content looks like to inotify.
const CHANGES: WatchFlags = WatchFlags::MODIFY.union(WatchFlags::CLOSE_WRITE).union(WatchFlags::ATTRIB);

/// The thread, once there is something to follow.
#[derive(Debug, Default)]
pub struct Following {
    thread: Option<Arc<Mailbox>>,
    has_failed: bool,
}

/// What the thread is to follow next. It ends when nobody else has this.
#[derive(Debug)]
struct Mailbox {
    new: Mutex<Vec<Followed>>,
    wake: OwnedFd,
}

impl Following {
    /// From now on the copy becomes what its original becomes, until nobody has it open.
    pub fn follow(&mut self, followed: Followed, budget: &Budget) {
        if self.thread.is_none() && !self.has_failed {
            match start(budget.clone()) {
                Ok(mailbox) => self.thread = Some(mailbox),
                Err(error) => {
                    tracing::warn!(%error, "open files will not show what others write to them");
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
        // Full means that it is awake.
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

/// What the thread has.
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
    /// The kernel has told of a change that isn't in the copy yet.
    is_due: bool,
}

impl Follower {
    fn new(mailbox: Arc<Mailbox>, budget: Budget) -> io::Result<Follower> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Follower { mailbox, budget, inotify, copies: Vec::new(), check_at: Instant::now() })
    }

    /// Waits for something to do, and does it. False if nobody wants any of it any more.
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
                // Of many that are removed at once most are open nowhere.
                if copy.is_in_use() {
                    tracing::warn!(path = %copy.path(), "too many open files change at once; this one keeps what it had for those who have it open");
                }
                continue;
            }
            self.copies.push(Watched { copy, watch: None, is_due: true });
        }
    }

    /// Marks what has changed as the kernel tells.
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
    /// Brings the copy up to date if somebody has it open. False if nobody has, nor will.
    fn check(&mut self, inotify: &OwnedFd) -> io::Result<bool> {
        if !self.copy.is_in_use() {
            self.is_due = false;
            return Ok(self.copy.age() < GRACE);
        }
        if self.watch.is_none() {
            // Before it is read, so that no change falls between.
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
        // Who has it open keeps the file that was removed or replaced, as on any file system.
        io::ErrorKind::NotFound => {}
        _ => {
            tracing::warn!(%path, %error, "who has this file open will not see what is written to it from now on; name it with --exclude if that matters")
        }
    }
}
