//! The machine's memory domains, read from the kernel's files.
//!
//! The spawning library reads the same files (`spawn/core/cpu_placement.c`), in C and in other processes, so it shares
//! no code with this.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::process::size_in;

/// Domains that the shared table can name: 0 to 63.
pub(crate) const DOMAINS_MAX: u32 = 64;

/// A memory domain with memory and with processors that this process may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Domain {
    /// The kernel's number.
    pub(crate) number: u32,
    /// Its processors.
    cpus: Vec<usize>,
    directory: PathBuf,
}

impl Domain {
    /// Returns the free bytes of its memory.
    pub(crate) fn free(&self) -> u64 {
        memory(&self.directory, "MemFree:").unwrap_or(0)
    }

    /// Moves the calling thread to the domain's processors, without those that it may not use.
    ///
    /// # Errors
    /// It may use none of them.
    pub(crate) fn enter(&self) -> io::Result<()> {
        let mut set = CpuSet::new();
        self.cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(*cpu));
        Ok(sched_setaffinity(None, &set)?)
    }
}

/// Finds the domains in `directory`, a `/sys/devices/system/node`, in the order of their numbers. A kernel without
/// domains has none.
pub(crate) fn find(directory: &Path) -> Vec<Domain> {
    let mut domains: Vec<Domain> = (0..DOMAINS_MAX).filter_map(|number| domain(directory, number)).collect();
    if domains.len() > 1 {
        // A separate thread, because it tries to move to each domain.
        let tried = std::thread::scope(|scope| {
            scope.spawn(|| domains.iter().map(|domain| domain.enter().is_ok()).collect::<Vec<bool>>()).join()
        });
        let mut is_usable = tried.unwrap_or_default().into_iter();
        domains.retain(|_| is_usable.next().unwrap_or(false));
    }
    domains
}

fn domain(directory: &Path, number: u32) -> Option<Domain> {
    let directory = directory.join(format!("node{number}"));
    let cpus = list(fs::read_to_string(directory.join("cpulist")).ok()?.trim())?;
    let has_memory = memory(&directory, "MemTotal:").is_some_and(|bytes| bytes > 0);
    (has_memory && !cpus.is_empty()).then_some(Domain { number, cpus, directory })
}

/// Returns a size in a domain's `meminfo`, in bytes: `Node 0 MemFree:   1234 kB`.
fn memory(directory: &Path, name: &str) -> Option<u64> {
    size_in(&fs::read_to_string(directory.join("meminfo")).ok()?, name)
}

/// Returns the numbers of a list such as `0-3,8`; `None` if it is invalid.
fn list(text: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        all.extend((first..=last).take_while(|cpu| *cpu < CpuSet::MAX_CPU));
    }
    Some(all)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Writes the files of a domain with these processors and this memory, total and free, in KiB.
    pub(crate) fn write_domain(directory: &Path, number: u32, cpus: &str, (total, free): (u64, u64)) {
        let node = directory.join(format!("node{number}"));
        fs::create_dir_all(&node).unwrap();
        fs::write(node.join("cpulist"), format!("{cpus}\n")).unwrap();
        let meminfo = format!("Node {number} MemTotal: {total:>12} kB\nNode {number} MemFree:  {free:>12} kB\n");
        fs::write(node.join("meminfo"), meminfo).unwrap();
    }

    #[test]
    fn lists_are_read() {
        for (text, numbers) in [
            ("", Some(vec![])),
            ("0", Some(vec![0])),
            ("0-2,8,10-11", Some(vec![0, 1, 2, 8, 10, 11])),
            ("3-1", Some(vec![])),
            ("1-x", None),
            ("-", None),
        ] {
            assert_eq!(list(text), numbers, "{text}");
        }
        assert!(list("0-18446744073709551615").unwrap().len() <= CpuSet::MAX_CPU);
    }

    #[test]
    fn domains_have_memory_and_processors_that_may_be_used() {
        let directory = tempfile::tempdir().unwrap();
        for (number, cpus, memory) in [
            (0, "0-1000", (1 << 20, 5)),
            (1, "", (1 << 20, 5)),
            (2, "0", (0, 0)),
            (3, "1023", (9, 9)),
            (7, "0", (8, 3)),
        ] {
            write_domain(directory.path(), number, cpus, memory);
        }
        let found = find(directory.path());
        assert_eq!(
            found.iter().map(|domain| domain.number).collect::<Vec<_>>(),
            [0, 7],
            "this machine has no processor 1023"
        );
        assert_eq!(found[1].free(), 3 << 10);
        assert_eq!(find(&directory.path().join("nothing")), []);
    }

    #[test]
    fn this_machines_domains_are_found() {
        let system = Path::new("/sys/devices/system/node");
        if !system.join("node0").exists() {
            println!("skipped: this kernel reports no memory domains");
            return;
        }
        let found = find(system);
        assert!(!found.is_empty() && found.iter().all(|domain| domain.free() > 0), "{found:?}");
    }
}
