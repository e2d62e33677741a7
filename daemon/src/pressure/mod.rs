//! Watches the memory and the file system of the store while there is content.
//!
//! `decide` computes the limit; this module observes and reports to the node. Each observation is optional: without
//! stall information and control groups, and for any user, the available ones decide.

pub(crate) mod decide;
mod group;
mod stall;

use std::os::fd::OwnedFd;
use std::path::Path;

use headwater_proto::Time;
use mio::{Registry, Token};
use rustix::fs::{Mode, OFlags, fstatfs, fstatvfs, open};

use self::decide::{CALM_PERCENT, Decider, STALLED_PERCENT, Seen};
use self::group::Groups;
use self::stall::Stall;
use crate::process::size_in;

/// The least time between two checks, in milliseconds.
const CHECK_MS_MIN: Time = 200;
/// The interval between reports of a failing store, in milliseconds.
pub(crate) const REPORT_MS: Time = 60_000;
/// With fewer free inodes, the store's file system counts as full.
const INODES_MIN: u64 = 64;
/// Checks after an alarm in which the averages must have risen: they are updated every two seconds.
const ALARMED_CHECKS: u32 = 4;
/// `f_type` of tmpfs and ramfs.
const MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// The observed state and the store's limit.
#[derive(Debug)]
pub(crate) struct Pressure {
    pub(crate) decider: Decider,
    /// The store's directory.
    pub(crate) store: Option<OwnedFd>,
    /// False if the store's pages can be written to a disk: then memory does not limit it.
    pub(crate) is_in_memory: bool,
    pub(crate) groups: Groups,
    pub(crate) group_stall: Option<Stall>,
    pub(crate) machine_stall: Option<Stall>,
    /// Content has been evicted since the limit was last raised.
    pub(crate) gives_up: bool,
    /// The limit that the node was last notified of, in bytes of content.
    pub(crate) notified_max: u64,
    pub(crate) checked_at: Option<Time>,
    pub(crate) check_at: Time,
    /// Further checks that treat rising averages as a stall.
    pub(crate) alarmed_checks: u32,
    /// The time of the last report, and the failures since.
    pub(crate) reported_at: Option<Time>,
    pub(crate) unreported: u64,
}

impl Pressure {
    /// Observes a store in a directory, or on its own disk, with this configured limit. The kernel may wake the event
    /// loop by `token`: see [`Pressure::woken`].
    pub(crate) fn start(
        store_bytes_max: u64,
        (directory, is_own_disk): (&Path, bool),
        registry: &Registry,
        token: Token,
    ) -> Pressure {
        let groups = Groups::find(Path::new("/proc/self"));
        let store = open(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok();
        let kind = store.as_ref().and_then(|store| fstatfs(store).ok()).map(|status| status.f_type as u64);
        let group_stall = groups.stall_file().and_then(|file| Stall::open(&file, registry, token));
        Pressure {
            decider: Decider::new(store_bytes_max),
            // No other process uses the store's own disk.
            store: store.filter(|_| !is_own_disk),
            is_in_memory: kind.is_none_or(|kind| MEMORY.contains(&(kind & 0xffff_ffff))),
            groups,
            group_stall,
            machine_stall: Stall::open(Path::new("/proc/pressure/memory"), registry, token),
            gives_up: false,
            notified_max: store_bytes_max,
            checked_at: None,
            check_at: 0,
            alarmed_checks: 0,
            reported_at: None,
            unreported: 0,
        }
    }

    /// Returns the present and the configured limit of the store, in bytes.
    pub(crate) fn store_bytes_max(&self) -> (u64, u64) {
        (self.decider.max, self.decider.configured_max)
    }

    /// Handles the kernel's alarm that tasks wait for memory.
    pub(crate) fn woken(&mut self) {
        self.alarmed_checks = ALARMED_CHECKS;
        self.check_soon();
    }

    /// Notes that the store failed, so that the room is checked soon. If the failure is to be reported, returns the
    /// number of unreported ones.
    pub(crate) fn store_failed(&mut self, now: Time) -> Option<u64> {
        self.check_soon();
        if self.reported_at.is_some_and(|at| now < at + REPORT_MS) {
            self.unreported += 1;
            return None;
        }
        self.reported_at = Some(now);
        Some(std::mem::take(&mut self.unreported))
    }

    fn check_soon(&mut self) {
        let soon = self.checked_at.map_or(0, |at| at + CHECK_MS_MIN);
        self.check_at = self.check_at.min(soon);
    }

    /// Observes memory and disk. The store has `store_bytes` and will free `bytes_going` soon.
    pub(crate) fn see(&mut self, store_bytes: u64, bytes_going: u64) -> Seen {
        let soon = |free: u64| free.saturating_add(bytes_going);
        let disk = self.store.as_ref().and_then(|store| fstatvfs(store).ok()).filter(|status| status.f_blocks > 0);
        let disk_free = disk.map(|status| {
            // Without free inodes there is no room, however many bytes are free.
            let has_inodes = status.f_files == 0 || status.f_favail > INODES_MIN;
            if has_inodes { status.f_bavail.saturating_mul(status.f_frsize) } else { 0 }
        });
        let mut seen = Seen { store_bytes, disk_free: disk_free.map(soon), ..Seen::default() };
        if self.is_in_memory {
            seen.group_free = self.groups.free().map(soon);
            seen.machine = machine().map(|(free, total)| (soon(free), total));
            seen.group_stalled_percent = self.group_stall.as_ref().and_then(Stall::percent);
            seen.machine_stalled_percent = self.machine_stall.as_ref().and_then(Stall::percent);
            if self.alarmed_checks > 0 {
                self.alarmed_checks -= 1;
                // The averages lag; the one that rises shows whose stall it is.
                let raised = |percent: f32| if percent < CALM_PERCENT { percent } else { percent.max(STALLED_PERCENT) };
                seen.group_stalled_percent = seen.group_stalled_percent.map(raised);
                seen.machine_stalled_percent = seen.machine_stalled_percent.map(raised);
            }
        }
        seen
    }
}

/// Returns the bytes of memory that can be allocated in this process's tightest control group and on the machine.
pub fn memory_free() -> Option<u64> {
    let machine = machine().map(|(free, _)| free);
    Groups::find(Path::new("/proc/self")).free().into_iter().chain(machine).min()
}

/// Returns the bytes that can be allocated on this machine without swapping, and its memory; see proc(5).
fn machine() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    Some((size_in(&text, "MemAvailable:")?, size_in(&text, "MemTotal:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_memory_is_read() {
        let (free, total) = machine().unwrap();
        assert!(0 < free && free <= total, "{free} of {total}");
    }
}
