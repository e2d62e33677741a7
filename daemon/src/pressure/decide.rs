//! Decides the store's limit from the free memory and the free space of its file system.
//!
//! Nothing is read here: observations are arguments, and the limit is the result.

use headwater_proto::Time;

/// The store uses at most this part of the memory that other processes leave: one half.
const MEMORY_SHARE: u64 = 2;
/// This part of the file system's free space stays free for the table and others, up to [`DISK_SPARE_BYTES_MAX`].
const DISK_SPARE_SHARE: u64 = 8;
const DISK_SPARE_BYTES_MAX: u64 = 64 << 20;
/// Above this percentage of time lost to waiting for memory, the store evicts content; below the other, its limit may
/// rise.
pub(crate) const STALLED_PERCENT: f32 = 10.0;
pub(crate) const CALM_PERCENT: f32 = 1.0;
/// A stall lowers the limit by this part of the store's bytes, but not below this many bytes.
const STALL_STEP_SHARE: u64 = 4;
const STALL_BYTES_MIN: u64 = 64 << 20;
/// The least time between two steps for stalls, in milliseconds: evicted content needs it to leave memory.
const STALL_STEP_MS: Time = 6_000;
/// The least time from lowering to raising the limit, and between two raises, in milliseconds.
const CALM_MS: Time = 5_000;
const RAISE_MS: Time = 1_000;
/// A raise is this part of the configured limit.
const RAISE_SHARE: u64 = 16;
/// The limit is raised only if it can grow by at least this part.
const RAISE_SHARE_MIN: u64 = 8;
/// Limits are rounded down to about this part, which suppresses small changes.
const ROUNDING_SHARE: u64 = 16;

/// Observations, each if it is available.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    /// Bytes of the store, without those that will be freed soon.
    pub(crate) store_bytes: u64,
    /// Bytes that can be allocated before a control group reaches its limit; the least of all groups.
    pub(crate) group_free: Option<u64>,
    /// Bytes that can be allocated on the machine, and its memory.
    pub(crate) machine: Option<(u64, u64)>,
    /// Bytes that can be allocated in the store's file system.
    pub(crate) disk_free: Option<u64>,
    /// Percentage of the last ten seconds in which a task of the daemon's control group waited for memory.
    pub(crate) group_stalled_percent: Option<f32>,
    /// The same of the whole machine.
    pub(crate) machine_stalled_percent: Option<f32>,
}

impl Seen {
    /// Returns the bytes of memory that can be allocated.
    fn memory_free(&self) -> Option<u64> {
        self.group_free.into_iter().chain(self.machine.map(|(free, _)| free)).min()
    }

    /// Returns the bytes that can be allocated in memory and in the store's file system.
    pub(crate) fn free(&self) -> Option<u64> {
        self.memory_free().into_iter().chain(self.disk_free).min()
    }
}

/// The direction of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Lowered,
    Raised,
}

/// A new limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) store_bytes_max: u64,
    pub(crate) direction: Direction,
    /// False if the last change was in the same direction.
    pub(crate) is_turn: bool,
}

/// The limit and the times of its changes.
#[derive(Clone, Debug)]
pub(crate) struct Decider {
    /// In bytes.
    pub(super) configured_max: u64,
    /// The present limit, in bytes.
    pub(super) max: u64,
    turned: Option<Direction>,
    lowered_at: Option<Time>,
    raised_at: Option<Time>,
    stepped_at: Option<Time>,
}

impl Decider {
    /// Starts with the configured limit.
    pub(crate) fn new(configured_max: u64) -> Decider {
        let max = configured_max;
        Decider { configured_max, max, turned: None, lowered_at: None, raised_at: None, stepped_at: None }
    }

    /// Adapts the limit to observations at `now`. It falls at once and rises slowly, and never exceeds the configured
    /// limit.
    pub(crate) fn decide(&mut self, now: Time, seen: &Seen) -> Option<Change> {
        let room = room(self.configured_max, seen);
        let (stalled, is_calm) = (is_stalled(seen), is_calm(seen));
        let is_step_due = self.stepped_at.is_none_or(|at| now >= at + STALL_STEP_MS);
        let mut wanted = room;
        if stalled && is_step_due {
            let retained = seen.store_bytes - seen.store_bytes / STALL_STEP_SHARE;
            wanted = wanted.min(retained.max(STALL_BYTES_MIN));
        }
        if wanted < self.max {
            if wanted < room {
                self.stepped_at = Some(now);
            }
            self.lowered_at = Some(now);
            return Some(self.change(wanted, Direction::Lowered));
        }
        if stalled || !is_calm {
            self.lowered_at = self.lowered_at.map(|_| now);
            return None;
        }
        let is_due = self.lowered_at.is_none_or(|at| now >= at + CALM_MS)
            && self.raised_at.is_none_or(|at| now >= at + RAISE_MS);
        let is_worth_it = room == self.configured_max || room - self.max >= self.max / RAISE_SHARE_MIN;
        if room == self.max || !is_due || !is_worth_it {
            return None;
        }
        self.raised_at = Some(now);
        let step = (self.configured_max / RAISE_SHARE).max(1);
        Some(self.change(room.min(self.max.saturating_add(step)), Direction::Raised))
    }

    fn change(&mut self, store_bytes_max: u64, direction: Direction) -> Change {
        self.max = store_bytes_max;
        let is_turn = self.turned.replace(direction) != Some(direction);
        Change { store_bytes_max, direction, is_turn }
    }
}

/// Returns the largest limit while no task waits for memory.
fn room(configured_max: u64, seen: &Seen) -> u64 {
    let store = seen.store_bytes;
    let of_memory = seen.memory_free().map(|free| store.saturating_add(free) / MEMORY_SHARE);
    let of_disk = seen.disk_free.map(|free| {
        let all = store.saturating_add(free);
        all - (all / DISK_SPARE_SHARE).min(DISK_SPARE_BYTES_MAX)
    });
    let room = of_memory.into_iter().chain(of_disk).min().unwrap_or(u64::MAX);
    if room >= configured_max { configured_max } else { rounded(room) }
}

/// Rounds down by at most [`ROUNDING_SHARE`].
fn rounded(bytes: u64) -> u64 {
    match (bytes / ROUNDING_SHARE).checked_ilog2() {
        Some(bits) => bytes >> bits << bits,
        None => bytes,
    }
}

/// Returns true if so much time is lost that the store must evict content. Other groups may stall at their own limits,
/// so the machine's stalls count only while its memory is short.
fn is_stalled(seen: &Seen) -> bool {
    let is_much = |percent: Option<f32>| percent.is_some_and(|percent| percent >= STALLED_PERCENT);
    is_much(seen.group_stalled_percent) || (is_much(seen.machine_stalled_percent) && is_short(seen))
}

fn is_calm(seen: &Seen) -> bool {
    let is_little = |percent: Option<f32>| percent.is_none_or(|percent| percent < CALM_PERCENT);
    is_little(seen.group_stalled_percent) && (is_little(seen.machine_stalled_percent) || !is_short(seen))
}

fn is_short(seen: &Seen) -> bool {
    seen.machine.is_none_or(|(free, total)| free < total / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GIB: u64 = 1 << 30;
    const MIB: u64 = 1 << 20;

    fn seen(store_bytes: u64, group_free: u64) -> Seen {
        Seen { store_bytes, group_free: Some(group_free), ..Seen::default() }
    }

    #[test]
    fn the_tightest_bound_decides() {
        let check = |seen: Seen, expected: u64| assert_eq!(room(4 * GIB, &seen), expected, "{seen:?}");
        check(Seen::default(), 4 * GIB);
        check(seen(0, 2 * GIB), GIB);
        check(seen(GIB, GIB), GIB);
        check(seen(0, 8 * GIB), 4 * GIB);
        check(seen(0, u64::MAX), 4 * GIB);
        check(Seen { machine: Some((2 * GIB, 8 * GIB)), ..seen(0, 4 * GIB) }, GIB);
        check(Seen { disk_free: Some(GIB), ..Seen::default() }, GIB - 64 * MIB);
        check(Seen { disk_free: Some(8 * MIB), ..Seen::default() }, 7 * MIB);
        check(Seen { disk_free: Some(0), ..Seen::default() }, 0);
        check(Seen { disk_free: Some(0), ..seen(8 * MIB, GIB) }, 7 * MIB);
    }

    #[test]
    fn a_group_that_fills_up_gets_the_stores_memory() {
        let (mut decider, mut store, limit) = (Decider::new(4 * GIB), 0, 2 * GIB);
        assert_eq!(decider.decide(0, &seen(store, limit)).map(|c| c.store_bytes_max), Some(GIB));
        store = GIB;
        for (now, job) in (1..20).map(|n| (n * 1000, n * limit / 20)) {
            let free = limit.saturating_sub(job + store);
            decider.decide(now, &seen(store, free));
            store = store.min(decider.max);
            assert!(job + store <= limit, "{job} and {store} at {now}");
        }
        assert!(store <= limit / 40, "{store}");
    }

    #[test]
    fn a_stall_lowers_the_bound_step_by_step_and_calm_raises_it_slowly() {
        let mut decider = Decider::new(GIB);
        let stalled = Seen { group_stalled_percent: Some(30.0), ..seen(800 * MIB, 10 * GIB) };
        let change = |max, direction, is_turn| Some(Change { store_bytes_max: max, direction, is_turn });
        assert_eq!(decider.decide(0, &stalled), change(600 * MIB, Direction::Lowered, true));
        assert_eq!(decider.decide(1000, &stalled), None, "evicted content is not freed yet");
        let stalled = Seen { store_bytes: 600 * MIB, ..stalled };
        assert_eq!(decider.decide(6000, &stalled), change(450 * MIB, Direction::Lowered, false));
        let calm = seen(450 * MIB, 10 * GIB);
        assert_eq!(decider.decide(7000, &calm), None, "it was lowered a moment ago");
        assert_eq!(decider.decide(11_000, &calm), change(514 * MIB, Direction::Raised, true));
        assert_eq!(decider.decide(11_500, &calm), None);
        assert_eq!(decider.decide(12_000, &calm), change(578 * MIB, Direction::Raised, false));
        let uneasy = Seen { group_stalled_percent: Some(2.0), ..calm };
        assert_eq!(decider.decide(13_000, &uneasy), None);
        for now in (18_000..).step_by(1000).take(8) {
            decider.decide(now, &calm);
        }
        assert_eq!(decider.max, GIB);
    }

    #[test]
    fn others_stalls_count_only_while_the_machine_is_short_of_memory() {
        let with =
            |free| Seen { machine_stalled_percent: Some(50.0), machine: Some((free, 64 * GIB)), ..Seen::default() };
        assert!(!is_stalled(&with(32 * GIB)) && is_calm(&with(32 * GIB)));
        assert!(is_stalled(&with(GIB)) && !is_calm(&with(GIB)));
    }

    #[test]
    fn a_stall_leaves_a_small_store_alone() {
        let stalled = Seen { group_stalled_percent: Some(99.0), store_bytes: 10 * MIB, ..Seen::default() };
        let mut decider = Decider::new(GIB);
        assert_eq!(decider.decide(0, &stalled).map(|c| c.store_bytes_max), Some(STALL_BYTES_MIN));
        assert_eq!(decider.decide(60_000, &stalled), None);
        assert_eq!(Decider::new(MIB).decide(0, &stalled), None);
    }

    #[test]
    fn small_changes_are_none() {
        let mut decider = Decider::new(4 * GIB);
        let mut changes = 0;
        for second in 0..600 {
            let wobble = second % 7 * MIB;
            changes += u32::from(decider.decide(second * 1000, &seen(GIB, 2 * GIB + 3 * MIB + wobble)).is_some());
        }
        assert!(changes <= 2, "{changes} changes");
    }

    fn any_seen() -> impl Strategy<Value = Seen> {
        let bytes = || prop_oneof![0..16 * GIB, Just(u64::MAX)];
        let percent = || prop::option::of(0f32..100.0);
        (
            0..8 * GIB,
            prop::option::of(bytes()),
            prop::option::of((bytes(), bytes())),
            prop::option::of(bytes()),
            percent(),
            percent(),
        )
            .prop_map(
                |(store_bytes, group_free, machine, disk_free, group_stalled_percent, machine_stalled_percent)| Seen {
                    store_bytes,
                    group_free,
                    machine,
                    disk_free,
                    group_stalled_percent,
                    machine_stalled_percent,
                },
            )
    }

    proptest! {
        #[test]
        fn the_bound_follows_what_is_seen(
            configured in 1..8 * GIB,
            steps in prop::collection::vec((0..10_000u64, any_seen()), 1..40),
        ) {
            let (mut decider, mut now) = (Decider::new(configured), 0);
            for (after, seen) in steps {
                now += after;
                let before = decider.max;
                let change = decider.decide(now, &seen);
                prop_assert!(decider.max <= room(configured, &seen), "never more than there is room for");
                prop_assert_eq!(decider.max, change.map_or(before, |change| change.store_bytes_max));
                if let Some(change) = change {
                    prop_assert_eq!(change.direction == Direction::Lowered, change.store_bytes_max < before);
                    prop_assert!(change.store_bytes_max != before);
                    prop_assert!(change.direction == Direction::Lowered || !is_stalled(&seen));
                }
            }
            for second in 1..100 {
                decider.decide(now + second * 1000, &Seen::default());
            }
            prop_assert_eq!(decider.max, configured, "without stalls the configured limit returns");
        }
    }
}
