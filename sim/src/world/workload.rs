//! What processes ask for.

use headwater_abi::{Path, Want};
use headwater_proto::{Input, Rank};

use super::{Event, World};
use crate::check::{Check, wants_content};
use crate::site::Waiting;
use crate::tree::{Item, Outcome};

impl World {
    pub(super) fn plan_workload(&mut self) {
        for rank in 1..self.sites.len() as u32 {
            let after = self.random.below(100);
            self.schedule(after, Event::Connect(Rank(rank)));
        }
        if self.random.chance(500) {
            self.script = (0..40).map(|_| self.random_request()).collect();
        } else if self.random.chance(400) {
            self.script = self.scan();
        }
        for _ in 0..self.options.requests {
            let after = self.random.below(self.options.duration_ms);
            self.schedule(after, Event::Request { must_succeed: self.options.is_calm() });
            if self.random.chance(self.options.change) {
                self.schedule(after, Event::Change);
            }
            if self.random.chance(self.options.node_death) {
                self.schedule(after, Event::Death);
            }
        }
    }

    /// Requests that must succeed, now that nothing fails any more.
    pub(super) fn plan_epilogue(&mut self) {
        self.script.clear();
        for _ in 0..self.options.requests.min(50) {
            let after = self.random.below(self.options.duration_ms);
            self.schedule(after, Event::Request { must_succeed: true });
        }
    }

    pub(super) fn request(&mut self, must_succeed: bool) -> Check {
        let rank = Rank(self.random.below(self.sites.len() as u64) as u32);
        if !self.site(rank).is_alive {
            return Ok(());
        }
        let at = self.script_at.entry(rank).or_default();
        let scripted = self.script.get(*at).cloned();
        *at += 1;
        let (path, mut want) = scripted.unwrap_or_else(|| self.random_request());
        if self.random.chance(self.options.live) {
            want = if self.random.chance(200) { Want::LIVE | Want::TREE } else { Want::LIVE };
        }
        let block = self.random.chance(80).then(|| self.random.below(4) as u32);
        let (path, want) = match block {
            None => (path, want),
            // Who wants a block has resolved the path.
            Some(_) => (self.canonical(path), Want::ATTR | Want::NO_FOLLOW),
        };
        let must_succeed = must_succeed && self.can_succeed(rank, &path, want, block);
        let client = self.next_client();
        self.summary.requests += 1;
        self.site_mut(rank).waiting.insert(client, Waiting { path: path.clone(), want, block, must_succeed });
        if self.random.chance(self.options.client_gone) {
            let after = self.random.below(50);
            self.schedule(after, Event::Local(rank, Box::new(Input::ClientGone { client })));
        }
        match block {
            None => self.give(rank, Input::Request { client, path, want }),
            Some(block) => self.give(rank, Input::RequestBlock { client, path, block }),
        }
    }

    pub(super) fn change(&mut self) -> Check {
        let tree = self.tree.changed(&mut self.random);
        self.past.push(std::mem::replace(&mut self.tree, tree));
        self.summary.faults += 1;
        Ok(())
    }

    /// Where a path leads, or some file of the tree.
    fn canonical(&mut self, path: Path) -> Path {
        match self.truth(&path, Want::ATTR) {
            Outcome::Found(at) => at,
            _ => {
                let paths: Vec<Path> = self.tree.paths().cloned().collect();
                self.random.pick(&paths).clone()
            }
        }
    }

    /// A program that looks at all files of a directory and then reads them, in its order.
    fn scan(&mut self) -> Vec<(Path, Want)> {
        let paths: Vec<Path> = self.tree.paths().cloned().collect();
        let directory = self.random.pick(&paths).parent();
        let names: Vec<Path> = paths.into_iter().filter(|path| path.parent() == directory).collect();
        let looks = names.iter().map(|path| (path.clone(), Want::ATTR | Want::NO_FOLLOW));
        looks.chain(names.iter().map(|path| (path.clone(), Want::WHOLE))).collect()
    }

    /// Whether nothing stands between a request and its answer.
    fn can_succeed(&self, rank: Rank, path: &Path, want: Want, block: Option<u32>) -> bool {
        let is_connected = std::iter::successors(Some(rank), |&r| self.topology.parent(r))
            .all(|r| self.site(r).is_alive && (r == Rank::ROOT || self.wires[r.0 as usize].is_up));
        let fits = self.limits.store_bytes_max >= 1 << 30 || !(wants_content(want) || block.is_some());
        let is_lasting = |outcome: &Outcome| match outcome {
            Outcome::Found(at) => !matches!(self.tree.item(at), Some(Item::File { is_readable: false, .. })),
            _ => true,
        };
        // What the job changes on the way may be on its way as well.
        let is_live = self.sites.iter().any(|site| !site.live.is_empty());
        is_connected && fits && !is_live && self.past.is_empty() && is_lasting(&self.truth(path, want))
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
