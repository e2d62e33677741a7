//! Checks of memory, descriptors and processes.

use std::path::Path;

use headwater_figures::text::size;
use rustix::fs::Access;
use rustix::process::{Resource, getrlimit};

use super::check::Check;
use crate::session::store::{self, ReadBy};

/// The smallest useful store, in bytes.
const STORE_BYTES_MIN: u64 = 256 << 20;
/// The smallest sufficient shared memory of parallel programs, in bytes.
const SHARED_BYTES_MIN: u64 = 64 << 20;
/// Descriptors for a daemon's links, requests and open files.
const DESCRIPTORS_MIN: u64 = 4096;
/// Processes and threads of a node's daemons.
const PROCESSES_MIN: u64 = 1024;

/// Checks the location of stores.
pub fn store(named: Option<&Path>) -> Check {
    const NAME: &str = "store";
    let store = match store::open(named, None, 1, ReadBy::Processes) {
        Ok(store) => store,
        Err(error) => {
            return Check::missing(
                NAME,
                format!("{error:#}"),
                "mount a tmpfs without noexec, and name it with --store",
            );
        }
    };
    let most = size(store.bytes_max);
    if store.disk.is_some() {
        let found =
            format!("a RAM disk of each session's own, of at most {most}; in {}, little", store.directory.display());
        return if store.bytes_max < STORE_BYTES_MIN {
            Check::warning(NAME, found, "raise the memory limit of this control group, or free memory")
        } else {
            Check::ok(NAME, found)
        };
    }
    let free = free_bytes(&store.directory);
    let found = format!("{}, {} free, of which it takes at most {most}", store.directory.display(), size(free));
    if let Some(why) = &store.why_shared {
        let next =
            "programs' shared memory lies there, too: let users make user namespaces, or name a tmpfs with --store";
        return Check::warning(NAME, format!("{found}. A RAM disk can't be made: {why}"), next);
    }
    if !store.is_in_memory {
        let next = "mount a tmpfs without noexec, and name it with --store (/dev/shm is noexec, full or not there)";
        Check::warning(NAME, format!("{found}, on a disk"), next)
    } else if free < STORE_BYTES_MIN {
        Check::warning(NAME, found, "make room there, or name another directory in memory with --store")
    } else {
        Check::ok(NAME, found)
    }
}

/// Checks `/dev/shm`, which programs use, too.
pub fn shared_memory() -> Check {
    const NAME: &str = "shared memory";
    let directory = Path::new("/dev/shm");
    if rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        return Check::missing(
            NAME,
            "/dev/shm can't be written to",
            "as root, `mount -t tmpfs -o mode=1777 tmpfs /dev/shm`",
        );
    }
    let free = free_bytes(directory);
    let found = format!("/dev/shm, {} free", size(free));
    if free < SHARED_BYTES_MIN {
        return Check::warning(
            NAME,
            found,
            "as root, `mount -o remount,size=50% /dev/shm`; in a container, raise --shm-size",
        );
    }
    Check::ok(NAME, found)
}

/// Checks the limit of open descriptors.
pub fn descriptors() -> Check {
    limit("descriptors", Resource::Nofile, DESCRIPTORS_MIN, "ulimit -n")
}

/// Checks the limit of processes.
pub fn processes() -> Check {
    limit("processes", Resource::Nproc, PROCESSES_MIN, "ulimit -u")
}

fn limit(name: &'static str, resource: Resource, least: u64, command: &str) -> Check {
    // Daemons raise the soft limit to the hard one.
    match getrlimit(resource).maximum {
        None => Check::ok(name, "no limit"),
        Some(most) if most >= least => Check::ok(name, format!("at most {most}")),
        Some(most) => {
            let next = format!("raise the hard limit (`{command}`, /etc/security/limits.conf) to {least} or more");
            Check::warning(name, format!("at most {most}"), next)
        }
    }
}

fn free_bytes(directory: &Path) -> u64 {
    rustix::fs::statvfs(directory).map_or(0, |s| s.f_bavail.saturating_mul(s.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::super::check::CheckResult;
    use super::*;

    #[test]
    fn a_store_on_a_disk_is_worth_a_warning() {
        assert_eq!(store(Some(Path::new("/nonexistent"))).verdict, CheckResult::Missing);
        assert!(store(Some(Path::new("/dev/shm"))).found.contains("/dev/shm, "));
        let disk = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        assert!(store(Some(disk.path())).verdict >= CheckResult::Warning);
    }

    #[test]
    fn low_limits_name_the_command() {
        assert_eq!(limit("descriptors", Resource::Nofile, 1, "ulimit -n").verdict, CheckResult::Ok);
        let low = limit("descriptors", Resource::Nofile, u64::MAX, "ulimit -n");
        assert!(low.verdict == CheckResult::Ok || low.next.unwrap().contains("ulimit -n"));
    }
}
