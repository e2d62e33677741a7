//! Control groups that limit the memory of processes, of either version.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::wait_until;

/// How long the kernel may take to forget processes that have ended.
const EMPTY_MAX: Duration = Duration::from_secs(10);

/// A control group whose processes have so much memory together, files that the kernel caches for them included. It is
/// removed when it is dropped; nothing may run in it then.
#[derive(Debug)]
pub struct MemoryGroup {
    path: PathBuf,
}

impl MemoryGroup {
    /// A new group.
    ///
    /// # Errors
    /// This user can't make one here.
    pub fn new(name: &str, bytes_max: u64) -> Result<MemoryGroup, String> {
        let root = Path::new("/sys/fs/cgroup");
        let (parent, limits) = match root.join("cgroup.controllers").exists() {
            true => (root.to_path_buf(), [("memory.max", bytes_max), ("memory.swap.max", 0)]),
            false => {
                let names = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"];
                (root.join("memory"), names.map(|name| (name, bytes_max)))
            }
        };
        let failed = |error: io::Error| format!("no group with a limit of its memory can be made: {error}");
        let _ = fs::write(parent.join("cgroup.subtree_control"), "+memory");
        let group = MemoryGroup { path: parent.join(format!("headwater-{name}-{}", std::process::id())) };
        fs::create_dir(&group.path).map_err(failed)?;
        for (file, value) in limits {
            let file = group.path.join(file);
            match fs::write(&file, value.to_string()) {
                // Swap is not counted on every machine.
                Err(error) if file.to_string_lossy().contains("sw") => drop(error),
                written => written.map_err(failed)?,
            }
        }
        Ok(group)
    }

    /// The file to which a process writes its PID to enter it.
    pub fn processes(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    /// Bytes of anonymous memory, of files' pages with shared memory, and of shared memory alone.
    ///
    /// # Errors
    /// The kernel does not report them.
    pub fn usage(&self) -> Result<[u64; 3], String> {
        let file = self.path.join("memory.stat");
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let number = |names: [&str; 2]| {
            let found = text.lines().filter_map(|line| line.split_once(' ')).find(|(name, _)| names.contains(name));
            found.and_then(|(_, number)| number.parse().ok()).ok_or(format!("{} names no {names:?}", file.display()))
        };
        Ok([number(["anon", "rss"])?, number(["file", "cache"])?, number(["shmem", "shmem"])?])
    }

    /// Bytes that the processes map, each page divided by the number of those that map it.
    pub fn pss(&self) -> u64 {
        let pids = fs::read_to_string(self.processes()).unwrap_or_default();
        let kib = |pid: &str| -> Option<u64> {
            let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
            text.lines().find_map(|line| line.strip_prefix("Pss:")?.split_whitespace().next()?.parse().ok())
        };
        pids.lines().filter_map(kib).sum::<u64>() << 10
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let is_gone = || fs::remove_dir(&self.path).is_ok();
        if !wait_until(EMPTY_MAX, is_gone) && !std::thread::panicking() {
            let left = fs::read_to_string(self.processes()).unwrap_or_default();
            panic!("{} can't be removed; processes: {left}", self.path.display());
        }
    }
}
