//! Requests of processes.

use headwater_abi::{Path, Want};
use headwater_proto::{Input, Rank};

use super::{Event, Fault, World};
use crate::check::wants_content;
use crate::site::Waiting;
use crate::tree::{Item, Outcome};
use crate::violation::Check;

/// How late a node may start, in milliseconds.
const LATE_MS_MAX: u64 = 6000;

impl World {
    pub(super) fn plan_workload(&mut self) {
        for rank in 0..self.sites.len() as u32 {
            let after = if self.random.chance(self.options.late) { LATE_MS_MAX } else { 100 };
            let after = self.random.below(after);
            self.schedule(after, Event::Start(Rank(rank)));
        }
        if self.random.chance(500) {
            self.script = (0..40).map(|_| self.random_request()).collect();
        } else if self.random.chance(400) {
            self.script = self.scan();
        }
        let options = self.options.clone();
        let faults = [
            (options.change, Fault::Change),
            (options.death, Fault::Death),
            (options.pause, Fault::Pause),
            (options.partition, Fault::Partition),
            (options.lie, Fault::Lie),
            (options.refresh, Fault::Refresh),
            (options.room, Fault::Room),
        ];
        for _ in 0..self.options.requests {
            let after = self.random.below(self.options.duration_ms);
            self.schedule(after, Event::Request { must_succeed: self.is_calm });
            for (chance, fault) in faults {
                if self.random.chance(chance) {
                    self.schedule(after, Event::Fault(fault));
                }
            }
        }
    }

    /// Plans requests that must succeed after the faults have ended.
    pub(super) fn plan_epilogue(&mut self) {
        self.script.clear();
        for _ in 0..self.options.requests.min(60) {
            let after = self.random.below(self.options.duration_ms);
            self.schedule(after, Event::Request { must_succeed: true });
        }
    }

    pub(super) fn request(&mut self, must_succeed: bool) -> Check {
        let servers = u64::from(self.forest.servers());
        let rank = Rank((servers + self.random.below(self.sites.len() as u64 - servers)) as u32);
        if !self.site(rank).is_alive || self.site(rank).paused_until > self.now {
            return Ok(());
        }
        let at = self.script_at.entry(rank).or_default();
        let scripted = self.script.get(*at).cloned();
        *at += 1;
        let (path, mut want) = scripted.unwrap_or_else(|| self.random_request());
        if self.random.chance(self.options.passthrough) {
            want = if self.random.chance(200) { Want::PASSTHROUGH | Want::TREE } else { Want::PASSTHROUGH };
        }
        let block = self.random.chance(80).then(|| self.random.below(4) as u32);
        let (path, want) = match block {
            None => (path, want),
            // A process that needs a block has resolved the path.
            Some(_) => (self.canonical(path), Want::ATTR | Want::NO_FOLLOW),
        };
        let must_succeed = must_succeed && self.can_succeed(rank, &path, want, block);
        let (client, since) = (self.next_client(), self.now);
        self.summary.requests += 1;
        let waiting = Waiting { path: path.clone(), want, block, must_succeed, since };
        self.summary.musts += u64::from(must_succeed);
        self.site_mut(rank).waiting.insert(client, waiting);
        if self.random.chance(self.options.client_gone) {
            let after = self.random.below(50);
            self.schedule_local(after, rank, Input::ClientGone { client });
        }
        match block {
            None => self.pass_input(rank, Input::Request { client, path, want }),
            Some(block) => self.pass_input(rank, Input::RequestBlock { client, path, block }),
        }
    }

    /// Returns where a path leads, or some file of the tree.
    fn canonical(&mut self, path: Path) -> Path {
        match self.truth(&path, Want::ATTR) {
            Outcome::Found(at) => at,
            _ => {
                let paths: Vec<Path> = self.tree.paths().cloned().collect();
                self.random.pick(&paths).clone()
            }
        }
    }

    /// Draws a program that looks up all files of a directory and then reads them, in its order.
    fn scan(&mut self) -> Vec<(Path, Want)> {
        let paths: Vec<Path> = self.tree.paths().cloned().collect();
        let directory = self.random.pick(&paths).parent();
        let names: Vec<Path> = paths.into_iter().filter(|path| path.parent() == directory).collect();
        let looks = names.iter().map(|path| (path.clone(), Want::ATTR | Want::NO_FOLLOW));
        looks.chain(names.iter().map(|path| (path.clone(), Want::WHOLE))).collect()
    }

    fn can_succeed(&self, rank: Rank, path: &Path, want: Want, block: Option<u32>) -> bool {
        let is_alive = |rank: Rank| self.site(rank).is_alive || self.is_calm;
        let is_connected = self
            .forest
            .tree_ids()
            .filter(|&tree| self.forest.contains(tree, rank))
            .all(|tree| self.forest.candidates(tree).any(is_alive));
        let is_roomy = self.sites.iter().all(|site| !site.is_alive || site.store_bytes_max >= 1 << 30)
            || !(wants_content(want) || block.is_some());
        let is_wide = self.limits.pending_max.min(self.limits.transfers_max) > 1000;
        let fits = is_roomy && is_wide && self.limits.entries_max > 1000;
        let is_unchanged = |path: &Path| {
            !std::iter::successors(Some(path.clone()), Path::parent).any(|path| self.changed.contains(&path))
        };
        let is_permanent = |outcome: &Outcome| match outcome {
            Outcome::Found(at) => {
                is_unchanged(at) && !matches!(self.tree.item(at), Some(Item::File { is_readable: false, .. }))
            }
            _ => is_unchanged(path),
        };
        // Names beside a passthrough path are looked up in the source, too.
        let is_passthrough = self.sites.iter().any(|site| !site.table.passthrough.is_empty());
        is_connected && fits && !is_passthrough && is_unchanged(path) && is_permanent(&self.truth(path, want))
    }

    fn random_request(&mut self) -> (Path, Want) {
        let paths: Vec<Path> = self.tree.paths().cloned().collect();
        let mut path = self.random.pick(&paths).clone();
        for _ in 0..self.random.below(3) {
            let tail: &[u8] = match self.random.below(8) {
                0 => b"absent",
                1 => b"..",
                2..5 => self.random.pick(&paths).name(),
                _ => continue,
            };
            path = path.join(tail).unwrap_or(path);
        }
        if self.random.chance(20) {
            path = Path::new(b"/etc/passwd").expect("an absolute path");
        }
        let want = match self.random.below(8) {
            0 => Want::ATTR,
            1 => Want::ATTR | Want::NO_FOLLOW,
            2 if self.random.chance(2) => Want::LISTING | Want::DETAILS,
            2 => Want::LISTING,
            3..6 => Want::LOADABLE,
            6 => Want::EXECUTE,
            _ => Want::WHOLE,
        };
        (path, want)
    }
}
