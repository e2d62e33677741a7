//! The session's directory: joining, counters and removal.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use headwater_abi::client::{COUNTER_SLOTS, COUNTER_WORDS, counter};
use headwater_store::layout::{NodeDir, ignore_absent};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::config::Config;
use crate::error::{DaemonError, failed};
use crate::report::Clients;

/// Bytes of the file with the processes' counters.
const COUNTERS_BYTES: usize = COUNTER_SLOTS * COUNTER_WORDS * 8;

/// How long an orphaned daemon waits for the session's lock.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(2);
/// The interval of its attempts.
const LOCK_RETRY: Duration = Duration::from_millis(10);

/// Membership of a session. Dropping it removes the node's directory, unless a supervisor will.
#[derive(Debug)]
pub struct Session {
    pub(crate) dir: NodeDir,
    pub(crate) lock_path: PathBuf,
    pub(crate) lock: File,
    /// The session's directory, locked so that systemd-tmpfiles does not remove old files in it.
    pub(crate) _directory_lock: Option<File>,
    pub(crate) is_supervised: bool,
}

/// How a session is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// Its owner removes it.
    Owned,
    /// It has no owner but its daemons.
    Ownerless,
    /// Its owner was killed, perhaps with other daemons.
    Orphaned,
}

impl Session {
    /// Takes the shared lock that shows that the session is in use.
    pub fn join(config: &Config) -> Result<Session, DaemonError> {
        let lock_path = config.session_lock.clone();
        let lock = File::open(&lock_path).map_err(failed("open", &lock_path))?;
        flock(&lock, FlockOperation::NonBlockingLockShared)
            .map_err(|error| failed("lock", &lock_path)(error.into()))?;
        let directory = lock_path.parent().and_then(|directory| File::open(directory).ok());
        let _directory_lock = directory.filter(|lock| flock(lock, FlockOperation::NonBlockingLockShared).is_ok());
        Ok(Session { dir: config.dir(), lock_path, lock, _directory_lock, is_supervised: config.mount.is_some() })
    }

    /// Leaves the session. Removes the node's directory, unless a supervisor will, and the session's if this is its
    /// last daemon and it has no owner.
    pub fn leave(mut self, leaving: Leaving) {
        let timeout = match leaving {
            Leaving::Owned => return,
            Leaving::Ownerless => Duration::ZERO,
            Leaving::Orphaned => LOCK_WAIT_MAX,
        };
        self.is_supervised = false;
        remove(self.dir.path());
        if self.is_last(timeout)
            && let Some(session) = self.lock_path.parent()
        {
            remove(session);
            // Fails while another session is there.
            let _ = session.parent().map(std::fs::remove_dir);
        }
    }

    /// Returns true once no other daemon holds the lock. The kernel closes a killed process's files one by one, so its
    /// lock may outlast its end of the lifeline.
    fn is_last(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        loop {
            // Unlocking first lets one of several daemons that leave at once succeed.
            let attempt = flock(&self.lock, FlockOperation::Unlock)
                .and_then(|()| flock(&self.lock, FlockOperation::NonBlockingLockExclusive));
            let is_in_use = attempt == Err(Errno::WOULDBLOCK);
            if !is_in_use || !self.lock_path.exists() || Instant::now() >= deadline {
                return attempt.is_ok();
            }
            std::thread::sleep(LOCK_RETRY);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.is_supervised {
            remove(self.dir.path());
        }
    }
}

/// Creates the counters file of the node's processes. Its memory is allocated at once, because processes map it.
pub(crate) fn create_counters(path: &Path) -> io::Result<()> {
    let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all_at(&vec![0; COUNTERS_BYTES], 0)
}

pub(crate) fn read_counters(path: &Path) -> io::Result<Clients> {
    let mut bytes = vec![0; COUNTERS_BYTES];
    File::open(path)?.read_exact_at(&mut bytes, 0)?;
    let word = |slot: usize, number: usize| {
        let at = (slot * COUNTER_WORDS + number) * 8;
        bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
    };
    let sum = |number| (0..COUNTER_SLOTS).map(|slot| word(slot, number)).fold(0, u64::wrapping_add);
    Ok(Clients {
        lookups: sum(counter::LOOKUPS),
        answered_by_table: sum(counter::ANSWERED),
        requests: sum(counter::REQUESTS),
        fallbacks: sum(counter::FALLBACKS),
        processes: sum(counter::PROCESSES),
    })
}

fn remove(directory: &Path) {
    if let Err(error) = ignore_absent(std::fs::remove_dir_all(directory)) {
        tracing::warn!(directory = %directory.display(), %error, "the directory can't be removed; remove it by hand");
    }
}
