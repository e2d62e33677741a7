//! Which files of the mount the node's processes lock. The kernel keeps the locks of a mount on its node, so processes of
//! two nodes that lock one file don't exclude each other, and the session warns of that at its end.
//!
//! The kernel would send locks only together with each closing of a file, which opening alone does without. So the
//! locks of a process that writes are read from its descriptors: proc_pid_fdinfo(5). The table of all locks is not read,
//! since the kernel may take tens of milliseconds to have no lock change meanwhile.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Descriptors of a process that are examined, the lowest ones.
const DESCRIPTORS_MAX: usize = 256;
/// Locked files that are remembered.
const PATHS_MAX: usize = 16;
/// The least time between two readings.
const PAUSE: Duration = Duration::from_millis(10);
/// It is at least this many times the processor time of a reading.
const PAUSE_SHARE: u32 = 50;
/// The type of the mounts.
const TYPE: &str = "fuse.headwater";

/// The locked files that were found.
#[derive(Debug, Default)]
pub(crate) struct Locks(Mutex<Found>);

#[derive(Debug, Default)]
struct Found {
    next: Option<Instant>,
    paths: BTreeSet<PathBuf>,
}

impl Locks {
    /// Looks for locks while this process writes, but for readings that follow another too soon.
    pub(crate) fn look(&self, process: u32) {
        let Ok(mut found) = self.0.try_lock() else { return };
        let now = Instant::now();
        if found.paths.len() < PATHS_MAX && found.next.is_none_or(|next| next <= now) {
            let before = processor_time();
            found.paths.extend(locked(process));
            let took = processor_time().saturating_sub(before);
            found.next = Some(now + PAUSE.max(took * PAUSE_SHARE));
        }
    }

    /// Returns the files, by their paths in the scope.
    pub(crate) fn paths(&self) -> Vec<String> {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.paths.iter().take(PATHS_MAX).map(|path| path.to_string_lossy().into_owned()).collect()
    }
}

/// The processor time of this thread.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Returns the files that this process has locked in the mounts that it sees. A lock that a parent has taken, as
/// `flock 9` does in a shell, is its descriptor's, which it shares.
fn locked(process: u32) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/fdinfo")) else { return Vec::new() };
    let held = entries.flatten().take(DESCRIPTORS_MAX).filter_map(|entry| {
        let info = fs::read_to_string(entry.path()).ok()?;
        let locks: Vec<String> = info.lines().filter_map(lock).map(str::to_owned).collect();
        (!locks.is_empty()).then(|| (entry.file_name(), locks))
    });
    let held: Vec<_> = held.collect();
    if held.is_empty() {
        return Vec::new();
    }
    let devices = devices(&fs::read_to_string(format!("/proc/{process}/mountinfo")).unwrap_or_default());
    let is_ours = |file: &String| devices.iter().any(|device| is_on(file, device));
    let ours = held.into_iter().filter(|(_, locks)| locks.iter().any(is_ours));
    ours.filter_map(|(number, _)| fs::read_link(PathBuf::from(format!("/proc/{process}/fd")).join(number)).ok())
        .collect()
}

/// The devices of the mounts in this `mountinfo`, as the kernel's lines about locks have them.
fn devices(mounts: &str) -> Vec<String> {
    let device = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let (major, minor) = before.split(' ').nth(2).filter(|_| after.starts_with(TYPE))?.split_once(':')?;
        Some(format!("{:02x}:{:02x}", major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    };
    mounts.lines().filter_map(device).collect()
}

/// Returns the locked file in a line of a descriptor, as `MAJOR:MINOR:INODE`.
fn lock(line: &str) -> Option<&str> {
    let (_, line) = line.strip_prefix("lock:")?.split_once(": ")?;
    let mut fields = line.split_whitespace();
    let is_lock = matches!(fields.next()?, "POSIX" | "FLOCK" | "OFDLCK");
    fields.nth(3).filter(|_| is_lock)
}

fn is_on(file: &str, device: &str) -> bool {
    file.strip_prefix(device).is_some_and(|rest| rest.starts_with(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_locks_name_the_file() {
        let is = |line, file| assert_eq!(lock(line), file, "{line}");
        is("lock:\t1: POSIX  ADVISORY  WRITE 812 00:2f:4711 0 EOF", Some("00:2f:4711"));
        is("lock:\t2: FLOCK  ADVISORY  WRITE 99 00:2f1:7 0 EOF", Some("00:2f1:7"));
        is("lock:\t3: OFDLCK ADVISORY  READ -1 00:2f:12 0 99", Some("00:2f:12"));
        is("lock:\t4: LEASE  ACTIVE    WRITE 5 00:2f:13 0 EOF", None);
        is("flags:\t0100000", None);
        assert!(is_on("00:2f:4711", "00:2f") && !is_on("00:2f1:7", "00:2f"));
    }

    #[test]
    fn devices_of_mounts_are_found() {
        let mounts = "36 35 0:47 / /sw rw - fuse.headwater headwater rw\n37 35 8:1 / / rw shared:1 - ext4 /dev/a rw\n";
        assert_eq!(devices(mounts), ["00:2f"]);
    }

    #[test]
    fn locks_of_other_file_systems_are_not_ours() {
        let file = tempfile::NamedTempFile::new().unwrap();
        rustix::fs::flock(file.as_file(), rustix::fs::FlockOperation::LockExclusive).unwrap();
        let info = format!("/proc/self/fdinfo/{}", std::os::fd::AsRawFd::as_raw_fd(file.as_file()));
        assert_eq!(fs::read_to_string(info).unwrap().lines().filter_map(lock).count(), 1);
        assert!(locked(std::process::id()).is_empty());
    }
}
