//! Faults, beside those of the network and the readers.

use headwater_proto::{Input, Rank};

use super::{Event, Fault, World};
use crate::violation::Check;

/// How long a node pauses, at most, in milliseconds.
const PAUSE_MS_MAX: u64 = 4000;
/// How long a node sends wrong bytes, at most, in milliseconds.
const LIE_MS_MAX: u64 = 2000;
/// How long a partition lasts, at most, in milliseconds.
const PARTITION_MS_MAX: u64 = 8000;
/// Time between two steps of eviction, in milliseconds.
const ROOM_MS: u64 = 50;
/// How long a node is dead that is started again, at most, in milliseconds.
const ABSENCE_MS_MAX: u64 = 3000;

impl World {
    pub(super) fn fault(&mut self, fault: Fault) -> Check {
        let rank = Rank(self.random.below(self.sites.len() as u64) as u32);
        let now = self.now;
        match fault {
            Fault::Refresh if self.site(rank).is_alive => return self.refresh(rank),
            Fault::Room if self.site(rank).is_alive => return self.draw_room(rank),
            Fault::Change => self.change(),
            Fault::Death if self.site(rank).is_alive => self.death(rank),
            Fault::Pause if self.site(rank).is_alive => {
                let until = now + self.random.below(PAUSE_MS_MAX);
                self.trace(rank, || format!("pauses until {until}"));
                let site = self.site_mut(rank);
                site.paused_until = site.paused_until.max(until);
            }
            Fault::Lie => {
                let until = now + self.random.below(LIE_MS_MAX);
                self.trace(rank, || format!("lies until {until}"));
                self.site_mut(rank).lies_until = until;
            }
            Fault::Partition if now >= self.parted_until => self.part(),
            _ => return Ok(()),
        }
        self.summary.faults += 1;
        Ok(())
    }

    fn change(&mut self) {
        let tree = self.tree.changed(&mut self.random);
        let before = std::mem::replace(&mut self.tree, tree);
        self.changed.extend(before.differences(&self.tree));
        self.past.push(before);
    }

    fn death(&mut self, rank: Rank) {
        let is_silent = self.random.chance(self.options.death_is_silent);
        self.trace(rank, || format!("dies, silently: {is_silent}"));
        self.site_mut(rank).die();
        let notice_ms_max = if is_silent { 5000 } else { 50 };
        self.cut_all(notice_ms_max, |ends, _| ends.0 == rank || ends.1 == rank);
        if self.random.chance(self.options.restart) {
            let after = self.random.below(ABSENCE_MS_MAX);
            self.schedule(after, Event::Start(rank));
        }
    }

    /// Separates some ranks from the others for a while. A link between them either ends or continues with
    /// all that was sent.
    fn part(&mut self) {
        self.parted_until = self.now + 100 + self.random.below(PARTITION_MS_MAX);
        let share = 1 + self.random.below(999);
        self.sides = (0..self.sites.len()).map(|_| self.random.chance(share)).collect();
        let (sides, seed) = (self.sides.clone(), self.random.next());
        self.trace(Rank::ROOT, || format!("is parted until {}: {sides:?}", self.parted_until));
        let ends_now = |(a, b): (Rank, Rank)| (seed ^ u64::from(a.0) ^ u64::from(b.0)).is_multiple_of(2);
        self.cut_all(3000, |ends, _| sides[ends.0.0 as usize] != sides[ends.1.0 as usize] && ends_now(ends));
    }

    fn refresh(&mut self, rank: Rank) -> Check {
        self.next_refresh += 1;
        let request = self.next_refresh;
        let mut paths = Vec::new();
        if self.random.chance(500) {
            let all: Vec<_> = self.tree.paths().cloned().collect();
            paths.push(self.random.pick(&all).clone());
        }
        let version = if paths.is_empty() { self.past.len() } else { 0 };
        self.site_mut(rank).refreshes.insert(request, version);
        self.pass_input(rank, Input::Refresh { request, paths })
    }

    fn draw_room(&mut self, rank: Rank) -> Check {
        let max = self.limits.store_bytes_max;
        let of = *self.random.pick(&[max, self.site(rank).store.bytes() + 1, 1 << 20]);
        self.site_mut(rank).store_bytes_max = self.random.below(of.min(max) + 1);
        self.set_room(rank)
    }

    /// Passes a node its store's limit, until its content is within it.
    pub(super) fn set_room(&mut self, rank: Rank) -> Check {
        let store_bytes_max = self.site(rank).store_bytes_max;
        self.pass_input(rank, Input::Room { store_bytes_max })?;
        let (site, life) = (self.site(rank), self.site(rank).life);
        if site.node.stats().store_bytes > store_bytes_max {
            self.schedule(ROOM_MS, Event::Room(rank, life));
        }
        Ok(())
    }

    /// Ends all faults. Either all dead nodes are restarted, or they stay dead.
    pub(super) fn stop_faults(&mut self) -> Check {
        self.trace(Rank::ROOT, || "no faults from here on".into());
        self.options = self.options.without_faults();
        // Links that deliver nothing are given up.
        self.cut_all(50, |_, wire| wire.lanes.iter().any(|lane| lane.is_silent));
        for site in &mut self.sites {
            site.lies_until = 0;
        }
        if self.random.chance(500) {
            self.restore_room()?;
        }
        if self.random.chance(600) {
            for rank in 0..self.sites.len() as u32 {
                let after = self.random.below(500);
                self.schedule(after, Event::Start(Rank(rank)));
            }
        }
        Ok(())
    }

    fn restore_room(&mut self) -> Check {
        let store_bytes_max = self.limits.store_bytes_max;
        for rank in (0..self.sites.len() as u32).map(Rank) {
            if self.site(rank).is_alive && self.site(rank).store_bytes_max != store_bytes_max {
                self.site_mut(rank).store_bytes_max = store_bytes_max;
                self.set_room(rank)?;
            }
        }
        Ok(())
    }
}
