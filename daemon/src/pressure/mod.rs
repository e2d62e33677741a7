//! Room for the store: what memory and the store's file system leave, watched while there is content.
//!
//! `decide` says how much that is; this reads what it needs, and tells the node. All of it is optional:
//! without stall information, without control groups, and as any user, what is left decides.

mod decide;
mod group;
mod stall;

use std::os::fd::OwnedFd;
use std::path::Path;

use headwater_proto::{Input, Time};
use mio::{Registry, Token};
use rustix::fs::{Mode, OFlags, fstatfs, fstatvfs, open};

use self::decide::{CALM_PERCENT, Decider, Direction, STALLED_PERCENT, Seen};
use self::group::Groups;
use self::stall::Stall;
use crate::config::content_bytes_max;
use crate::event_loop::Daemon;

/// How often to look while there is content, in milliseconds; less often while so many times the store's
/// bound is free.
const LOOK_MS: Time = 1000;
const LOOK_MS_ROOMY: Time = 5000;
const ROOMY: u64 = 8;
/// How long after a look the next one may be if something asks for it, in milliseconds.
const LOOK_MS_MIN: Time = 200;
/// How soon more is given up if some was and more has to be, in milliseconds.
const GO_ON_MS: Time = 20;
/// How often a failing store is told of, in milliseconds.
const TELL_MS: Time = 60_000;
/// Files that can still be made in the store's file system, below which it counts as full.
const INODES_MIN: u64 = 64;
/// Looks after a stall in which its averages must have risen, since they do so every two seconds.
const ALARMED_LOOKS: u32 = 4;
/// `f_type` of tmpfs and ramfs.
const MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// Watches what the store may hold.
#[derive(Debug)]
pub(crate) struct Pressure {
    decider: Decider,
    /// The store's directory.
    store: Option<OwnedFd>,
    /// False if the store's pages can be written to a disk: then it needs no memory.
    is_in_memory: bool,
    groups: Groups,
    group_stall: Option<Stall>,
    machine_stall: Option<Stall>,
    /// Content has been given up since the bound was last raised.
    gives_up: bool,
    /// What the node was told last, in bytes of content.
    told_max: u64,
    looked_at: Option<Time>,
    look_at: Time,
    /// How many looks are to take into account that the kernel has told of a stall.
    alarmed_looks: u32,
    /// When a failure was told last, and how many were not since.
    told_at: Option<Time>,
    untold: u64,
}

impl Pressure {
    /// Watches for a store in a directory, or on a disk of its own, that may hold `store_bytes_max`. The event
    /// loop may be woken by `token`: see [`Pressure::woken`].
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
            // Of a disk of its own nobody else takes anything.
            store: store.filter(|_| !is_own_disk),
            is_in_memory: kind.is_none_or(|kind| MEMORY.contains(&(kind & 0xffff_ffff))),
            groups,
            group_stall,
            machine_stall: Stall::open(Path::new("/proc/pressure/memory"), registry, token),
            gives_up: false,
            told_max: store_bytes_max,
            looked_at: None,
            look_at: 0,
            alarmed_looks: 0,
            told_at: None,
            untold: 0,
        }
    }

    /// What the store may hold now, and what was configured, in bytes.
    pub(crate) fn store_bytes_max(&self) -> (u64, u64) {
        (self.decider.max(), self.decider.configured_max())
    }

    /// The kernel says that time is lost.
    pub(crate) fn woken(&mut self) {
        self.alarmed_looks = ALARMED_LOOKS;
        self.look_soon();
    }

    /// The store has failed: there may be less room than was thought. How many failures were not told
    /// since the last that was, if this one is to be told.
    pub(crate) fn store_failed(&mut self, now: Time) -> Option<u64> {
        self.look_soon();
        if self.told_at.is_some_and(|at| now < at + TELL_MS) {
            self.untold += 1;
            return None;
        }
        self.told_at = Some(now);
        Some(std::mem::take(&mut self.untold))
    }

    fn look_soon(&mut self) {
        let soon = self.looked_at.map_or(0, |at| at + LOOK_MS_MIN);
        self.look_at = self.look_at.min(soon);
    }

    /// What is to be seen of memory and disk, where the store takes `store_bytes` and gives back
    /// `bytes_going` soon.
    fn see(&mut self, store_bytes: u64, bytes_going: u64) -> Seen {
        let soon = |free: u64| free.saturating_add(bytes_going);
        let disk = self.store.as_ref().and_then(|store| fstatvfs(store).ok()).filter(|status| status.f_blocks > 0);
        let disk_free = disk.map(|status| {
            // Where no more files can be made there is no room, however many bytes are free.
            let has_inodes = status.f_files == 0 || status.f_favail > INODES_MIN;
            if has_inodes { status.f_bavail.saturating_mul(status.f_frsize) } else { 0 }
        });
        let mut seen = Seen { store_bytes, disk_free: disk_free.map(soon), ..Seen::default() };
        if self.is_in_memory {
            seen.group_free = self.groups.free().map(soon);
            seen.machine = machine().map(|(free, total)| (soon(free), total));
            seen.group_stalled_percent = self.group_stall.as_ref().and_then(Stall::percent);
            seen.machine_stalled_percent = self.machine_stall.as_ref().and_then(Stall::percent);
            if self.alarmed_looks > 0 {
                self.alarmed_looks -= 1;
                // The averages lag behind; which of them rises shows whose stall it is.
                let raised = |percent: f32| if percent < CALM_PERCENT { percent } else { percent.max(STALLED_PERCENT) };
                seen.group_stalled_percent = seen.group_stalled_percent.map(raised);
                seen.machine_stalled_percent = seen.machine_stalled_percent.map(raised);
            }
        }
        seen
    }
}

impl Daemon {
    /// Looks whether the store has the room that it should have, if it is time.
    pub(crate) fn look_at_pressure(&mut self, now: Time) {
        if self.next_look_at_pressure().is_none_or(|look| now < look) {
            return;
        }
        self.table.replenish();
        let holds = self.node.stats().store_bytes;
        let going = self.store.bytes_going();
        let replicas = self.store.replica_bytes();
        let stands = self.store.bytes().saturating_sub(going + replicas);
        // Whole pages, and what older generations and slow users keep, are counted by the store alone.
        let content = stands.max(holds);
        let seen = self.pressure.see(content + replicas, going);
        let change = self.pressure.decider.decide(now, &seen);
        let (max, configured_max) = self.pressure.store_bytes_max();
        self.store.set_bytes_max(max);
        if let Some(change) = change {
            let gives_up = change.direction == Direction::Lowered && content > max;
            let is_told = self.pressure.gives_up && change.direction == Direction::Lowered;
            // A file that found no room has told which option helps.
            let is_known = gives_up && self.pressure.told_at.is_some_and(|at| now < at + TELL_MS);
            if (change.is_turn || (gives_up && !is_told)) && !is_known {
                tell(change.direction, max, &seen, gives_up);
            }
            self.pressure.gives_up = gives_up || is_told;
        }
        let content_max = content_bytes_max(self.mount.is_some(), max);
        let store_bytes_max = content_max.saturating_sub(stands.saturating_sub(holds));
        if self.pressure.told_max != store_bytes_max || holds > store_bytes_max {
            self.pressure.told_max = store_bytes_max;
            self.feed(Input::Room { store_bytes_max });
        }
        self.fit_replicas();
        let left = self.node.stats().store_bytes;
        let goes_on = left > store_bytes_max && left < holds;
        let is_roomy = self.pressure.alarmed_looks == 0
            && max == configured_max
            && seen.free().is_none_or(|free| free / ROOMY >= max);
        self.pressure.looked_at = Some(now);
        self.pressure.look_at = now
            + match (goes_on, is_roomy) {
                (true, _) => GO_ON_MS,
                (false, true) => LOOK_MS_ROOMY,
                (false, false) => LOOK_MS,
            };
    }

    /// When [`Daemon::look_at_pressure`] is due.
    pub(crate) fn next_look_at_pressure(&self) -> Option<Time> {
        let (max, configured_max) = self.pressure.store_bytes_max();
        let is_of_interest = self.store.bytes() > 0
            || self.node.stats().store_bytes > 0
            || max < configured_max
            || self.table.is_short()
            || self.pressure.looked_at.is_none();
        is_of_interest.then_some(self.pressure.look_at)
    }
}

fn tell(direction: Direction, store_bytes_max: u64, seen: &Seen, gives_up: bool) {
    let Seen { store_bytes, group_free, machine, disk_free, group_stalled_percent, machine_stalled_percent } = *seen;
    let machine_free = machine.map(|(free, _)| free);
    match direction {
        Direction::Lowered if gives_up => {
            tracing::warn!(
                store_bytes_max,
                store_bytes,
                group_free,
                machine_free,
                disk_free,
                group_stalled_percent,
                machine_stalled_percent,
                "memory or room under --store is short: the store gives content up, which is fetched again when it is wanted. A smaller --store-max, a larger memory limit of the job or another directory helps"
            );
        }
        Direction::Lowered => {
            tracing::info!(
                store_bytes_max,
                store_bytes,
                group_free,
                machine_free,
                disk_free,
                "the store may hold less, so that memory is left for others"
            );
        }
        Direction::Raised => {
            tracing::info!(
                store_bytes_max,
                store_bytes,
                group_free,
                machine_free,
                disk_free,
                "the store may hold more again"
            );
        }
    }
}

/// Bytes of memory that can be had: in the tightest of the control groups around this process, and on the machine.
pub fn memory_free() -> Option<u64> {
    let machine = machine().map(|(free, _)| free);
    Groups::find(Path::new("/proc/self")).free().into_iter().chain(machine).min()
}

/// Bytes of memory that can be had on this machine without swapping, and that it has; see proc(5).
fn machine() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    Some((bytes("MemAvailable:")?, bytes("MemTotal:")?))
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
