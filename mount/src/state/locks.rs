//! Which files of the mount the node's processes lock. The kernel keeps the locks of a mount on its node, so processes of
//! two nodes that lock one file don't exclude each other, and the session warns of that at its end.
//!
//! The kernel would send locks only together with each closing of a file, which opening alone does without. So the
//! table of locks is read while processes write: proc_locks(5).

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

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

/// Returns the files that are locked in the mounts that this process sees.
fn locked(process: u32) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/locks").unwrap_or_default();
    if table.is_empty() {
        return Vec::new();
    }
    let mounts = fs::read_to_string(format!("/proc/{process}/mountinfo")).unwrap_or_default();
    let devices = devices(&mounts);
    let held = held(&table).into_iter().filter(|(_, file)| devices.iter().any(|device| is_on(file, device)));
    // A lock may outlive the process that took it, as with `flock 9` in a shell.
    held.filter_map(|(holder, file)| [holder, process].into_iter().find_map(|one| path_of(one, file))).collect()
}

/// The devices of the mounts in this `mountinfo`, as the table of locks has them.
fn devices(mounts: &str) -> Vec<String> {
    let device = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let (major, minor) = before.split(' ').nth(2).filter(|_| after.starts_with(TYPE))?.split_once(':')?;
        Some(format!("{:02x}:{:02x}", major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    };
    mounts.lines().filter_map(device).collect()
}

/// The locks that are held: process, and file as `MAJOR:MINOR:INODE`. Lines of processes that wait have an arrow.
fn held(table: &str) -> Vec<(u32, &str)> {
    table.lines().filter_map(lock).collect()
}

fn lock(line: &str) -> Option<(u32, &str)> {
    let (_, line) = line.split_once(": ")?;
    let mut fields = line.split_whitespace();
    let is_lock = matches!(fields.next()?, "POSIX" | "FLOCK" | "OFDLCK");
    // The process of a lock of an open file is -1.
    let process = fields.nth(2)?.parse().unwrap_or(0);
    Some((process, fields.next()?)).filter(|_| is_lock)
}

fn is_on(file: &str, device: &str) -> bool {
    file.strip_prefix(device).is_some_and(|rest| rest.starts_with(':'))
}

/// The path of a locked file that this process has open.
fn path_of(process: u32, file: &str) -> Option<PathBuf> {
    let has_lock = |info: &str| {
        let locks = info.lines().filter_map(|line| lock(line.strip_prefix("lock:")?));
        locks.into_iter().any(|(_, locked)| locked == file)
    };
    let entries = fs::read_dir(format!("/proc/{process}/fdinfo")).ok()?.flatten();
    let mut descriptors = entries.filter(|entry| fs::read_to_string(entry.path()).is_ok_and(|info| has_lock(&info)));
    let number = descriptors.next()?.file_name();
    fs::read_link(PathBuf::from(format!("/proc/{process}/fd")).join(number)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
1: POSIX  ADVISORY  WRITE 812 00:2f:4711 0 EOF
1: -> POSIX  ADVISORY  WRITE 813 00:2f:4711 0 EOF
2: FLOCK  ADVISORY  WRITE 99 00:2f1:7 0 EOF
3: OFDLCK ADVISORY  READ -1 00:2f:12 0 99
4: LEASE  ACTIVE    WRITE 5 00:2f:13 0 EOF
";

    #[test]
    fn held_locks_are_found() {
        assert_eq!(held(TABLE), [(812, "00:2f:4711"), (99, "00:2f1:7"), (0, "00:2f:12")]);
        assert!(is_on("00:2f:4711", "00:2f") && !is_on("00:2f1:7", "00:2f"));
    }

    #[test]
    fn devices_of_mounts_are_found() {
        let mounts = "36 35 0:47 / /sw rw - fuse.headwater headwater rw\n37 35 8:1 / / rw shared:1 - ext4 /dev/a rw\n";
        assert_eq!(devices(mounts), ["00:2f"]);
    }

    #[test]
    fn a_file_that_is_locked_here_has_its_path() {
        let file = tempfile::NamedTempFile::new().unwrap();
        rustix::fs::flock(file.as_file(), rustix::fs::FlockOperation::LockExclusive).unwrap();
        let process = std::process::id();
        let table = fs::read_to_string("/proc/locks").unwrap();
        let own: Vec<_> = held(&table).into_iter().filter(|(holder, _)| *holder == process).collect();
        assert!(own.iter().any(|(_, of)| path_of(process, of).is_some_and(|path| path == file.path())), "{table}");
    }
}
