//! `clear`: evicts the store's copies of some paths.

use std::collections::VecDeque;

use headwater_abi::Path;
use headwater_proto::{Input, Time};
use mio::Token;

use super::Daemon;
use crate::control_socket::clear::{Clearing, Forgetting};
use crate::control_socket::protocol::{Answer, Cleared, Target};

/// How long the kernel may take to forget nodes, in milliseconds.
const FORGETTING_MS_MAX: Time = 2000;
/// If the kernel has forgotten nothing for this time after all notifications, the rest is in use; in milliseconds.
const FORGETTING_MS_QUIET: Time = 50;
/// Interval of the checks, in milliseconds.
const CHECK_MS: Time = 5;

impl Daemon {
    /// Begins to clear. The answer follows, unless one is returned.
    pub(crate) fn clear(&mut self, now: Time, token: Token, targets: Vec<Target>) -> Option<Answer> {
        let clean = |target: &Target| Some((Path::new(target.path.as_bytes())?, target.subtree));
        let Some(todo) = targets.iter().map(clean).collect::<Option<VecDeque<_>>>() else {
            return Some(Answer::Error("the paths to clear must be absolute".into()));
        };
        let clearing = Clearing { token, todo, sum: Cleared::default(), forgetting: None };
        self.frontends.clearings.queue.push_back(clearing);
        if self.frontends.clearings.queue.len() == 1 {
            self.begin_clearing(now);
        }
        None
    }

    /// Continues once the kernel has forgotten all unused nodes.
    pub(crate) fn continue_clearing(&mut self, now: Time) {
        if self.frontends.clearings.due.is_none_or(|due| now < due) {
            return;
        }
        let pinned = self.pinned_nodes().len() as u64;
        let is_notifying = self.frontends.mount.as_ref().is_some_and(|mount| mount.is_notifying());
        let Some(forgetting) =
            self.frontends.clearings.queue.front_mut().and_then(|clearing| clearing.forgetting.as_mut())
        else {
            self.frontends.clearings.due = None;
            return;
        };
        if pinned != forgetting.pinned || is_notifying {
            (forgetting.pinned, forgetting.since) = (pinned, now);
        }
        let is_quiet = now >= forgetting.since + FORGETTING_MS_QUIET;
        if pinned > 0 && !is_quiet && now < forgetting.until {
            self.frontends.clearings.due = Some(now + CHECK_MS);
            return;
        }
        self.frontends.clearings.due = None;
        if let Some(clearing) = self.frontends.clearings.queue.front_mut() {
            clearing.forgetting = None;
        }
        self.clear_next(now);
    }

    /// Continues after a part of a path was cleared.
    pub(crate) fn cleared(&mut self, path: Path, subtree: bool, next: Option<Path>, in_transit: u64) {
        if let Some(sum) = self.frontends.clearings.current() {
            sum.kept_in_transit += in_transit;
        }
        if next.is_some() {
            // After the refusals of this part.
            self.driver.inbox.push_back(Input::Clear { path, subtree, after: next });
        } else {
            let now = self.now();
            self.clear_next(now);
        }
    }

    fn begin_clearing(&mut self, now: Time) {
        let nodes = self.pinned_nodes();
        let Some(clearing) = self.frontends.clearings.queue.front_mut() else { return };
        let pinned = nodes.len() as u64;
        let Some(mount) = self.frontends.mount.as_ref().filter(|_| pinned > 0) else { return self.clear_next(now) };
        clearing.forgetting = Some(Forgetting { pinned, since: now, until: now + FORGETTING_MS_MAX });
        nodes.iter().for_each(|path| mount.notify_kernel(path));
        self.frontends.clearings.due = Some(now + CHECK_MS);
    }

    fn clear_next(&mut self, now: Time) {
        let Some(clearing) = self.frontends.clearings.queue.front_mut() else { return };
        if let Some((path, subtree)) = clearing.todo.pop_front() {
            return self.driver.inbox.push_back(Input::Clear { path, subtree, after: None });
        }
        let Clearing { token, sum, .. } = *clearing;
        self.frontends.clearings.queue.pop_front();
        self.frontends.control_socket.answer(now, token, Answer::Cleared(sum));
        self.begin_clearing(now);
    }

    /// Returns the paths to clear next that the kernel refers to, except directories.
    fn pinned_nodes(&self) -> Vec<Path> {
        let (Some(mount), Some(clearing)) = (&self.frontends.mount, self.frontends.clearings.queue.front()) else {
            return Vec::new();
        };
        mount.referred(|path| {
            clearing.todo.iter().any(|(target, subtree)| path == target || (*subtree && path.is_within(target)))
        })
    }
}
