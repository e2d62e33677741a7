//! Adjusts the store's limit to the free memory.

use headwater_proto::{Input, Time};

use super::Daemon;
use crate::config::content_bytes_max;
use crate::pressure::REPORT_MS;
use crate::pressure::decide::{Direction, Seen};

/// Interval of the checks while there is content, in milliseconds; the longer one while `ROOMY` times the store's limit
/// is free.
const CHECK_MS: Time = 1000;
const CHECK_MS_ROOMY: Time = 5000;
const ROOMY: u64 = 8;
/// How soon eviction continues if it was not enough, in milliseconds.
const GO_ON_MS: Time = 20;

impl Daemon {
    /// Checks the room for the store, if it is due.
    pub(crate) fn check_pressure(&mut self, now: Time) {
        if self.next_pressure_check().is_none_or(|due| now < due) {
            return;
        }
        self.content.table.replenish();
        let holds = self.driver.node.stats().store_bytes;
        let going = self.content.store.bytes_going();
        let replicas = self.content.store.replica_bytes();
        let stands = self.content.store.bytes().saturating_sub(going + replicas);
        // Only the store counts whole pages, and what older generations and open files retain.
        let content = stands.max(holds);
        let seen = self.housekeeping.pressure.see(content + replicas, going);
        let change = self.housekeeping.pressure.decider.decide(now, &seen);
        let (max, configured_max) = self.housekeeping.pressure.store_bytes_max();
        self.content.store.budget().set_max(max);
        if let Some(change) = change {
            let gives_up = change.direction == Direction::Lowered && content > max;
            let is_reported = self.housekeeping.pressure.gives_up && change.direction == Direction::Lowered;
            // The failure of a file without room has been reported with the option that helps.
            let is_known = gives_up && self.housekeeping.pressure.reported_at.is_some_and(|at| now < at + REPORT_MS);
            if (change.is_turn || (gives_up && !is_reported)) && !is_known {
                report_change(change.direction, max, &seen, gives_up);
            }
            self.housekeeping.pressure.gives_up = gives_up || is_reported;
        }
        let content_max = content_bytes_max(self.serves_audit, max);
        let store_bytes_max = content_max.saturating_sub(stands.saturating_sub(holds));
        if self.housekeeping.pressure.notified_max != store_bytes_max || holds > store_bytes_max {
            self.housekeeping.pressure.notified_max = store_bytes_max;
            self.feed(Input::Room { store_bytes_max });
        }
        self.fit_replicas();
        let left = self.driver.node.stats().store_bytes;
        let goes_on = left > store_bytes_max && left < holds;
        let is_roomy = self.housekeeping.pressure.alarmed_checks == 0
            && max == configured_max
            && seen.free().is_none_or(|free| free / ROOMY >= max);
        self.housekeeping.pressure.checked_at = Some(now);
        self.housekeeping.pressure.check_at = now
            + match (goes_on, is_roomy) {
                (true, _) => GO_ON_MS,
                (false, true) => CHECK_MS_ROOMY,
                (false, false) => CHECK_MS,
            };
    }

    /// Returns when [`Daemon::check_pressure`] is due.
    pub(crate) fn next_pressure_check(&self) -> Option<Time> {
        let (max, configured_max) = self.housekeeping.pressure.store_bytes_max();
        let is_of_interest = self.content.store.bytes() > 0
            || self.driver.node.stats().store_bytes > 0
            || max < configured_max
            || self.content.table.is_short()
            || self.housekeeping.pressure.checked_at.is_none();
        is_of_interest.then_some(self.housekeeping.pressure.check_at)
    }
}

fn report_change(direction: Direction, store_bytes_max: u64, seen: &Seen, gives_up: bool) {
    let Seen { store_bytes, group_free, machine, disk_free, group_stalled_percent, machine_stalled_percent } = *seen;
    let machine_free = machine.map(|(free, _)| free);
    if gives_up {
        return tracing::warn!(
            store_bytes_max,
            store_bytes,
            group_free,
            machine_free,
            disk_free,
            group_stalled_percent,
            machine_stalled_percent,
            "memory or room under --store is short: the store evicts content, which is fetched again when it is needed. A smaller --store-max, a larger memory limit of the job or another --store directory helps"
        );
    }
    let what = match direction {
        Direction::Lowered => "lowered, so that memory is left for other processes",
        Direction::Raised => "raised again",
    };
    tracing::info!(store_bytes_max, store_bytes, group_free, machine_free, disk_free, "the store's limit is {what}");
}
