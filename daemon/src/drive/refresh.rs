//! `refresh`: publishes changes to processes that start later.

use headwater_abi::Path;
use headwater_abi::wire::CHANGES_MAX;
use headwater_proto::{Input, Time};
use mio::Token;

use super::Daemon;
use crate::control_socket::protocol::{Answer, PathText, Refreshed};

impl Daemon {
    /// Begins a refresh. The answer follows, unless an error is returned.
    pub(crate) fn refresh(&mut self, token: Token, paths: &[PathText]) -> Option<Answer> {
        let Some(paths) = paths.iter().map(|path| Path::new(path.as_bytes())).collect::<Option<Vec<Path>>>() else {
            return Some(Answer::Error("the paths to refresh must be absolute".into()));
        };
        if paths.len() > CHANGES_MAX / 2 {
            let text = format!("at most {} paths can be refreshed at once; name their directory", CHANGES_MAX / 2);
            return Some(Answer::Error(text));
        }
        let request = self.frontends.refreshes.next;
        self.frontends.refreshes.next += 1;
        self.frontends.refreshes.waiting.insert(request, token);
        self.feed(Input::Refresh { request, paths });
        None
    }

    /// Requests a refresh of changed paths, if it is due. A failed one is repeated.
    pub(crate) fn refresh_changed(&mut self, now: Time) {
        if self.frontends.refreshes.due.is_none_or(|due| now < due) {
            return;
        }
        self.frontends.refreshes.due = None;
        let changed = std::mem::take(&mut self.frontends.refreshes.changed);
        let paths: Vec<Path> = changed.iter().cloned().collect();
        let request = self.frontends.refreshes.next;
        self.frontends.refreshes.next += 1;
        self.frontends.refreshes.automatic = Some((request, changed));
        self.feed(Input::Refresh { request, paths });
    }

    /// Answers a finished refresh.
    pub(crate) fn refreshed(&mut self, request: u64, generation: u64, changed: Option<u64>) {
        let refreshed = Refreshed { generation, changed, files: self.driver.node.stats().store_files };
        self.answer_refresh(request, Answer::Refreshed(refreshed));
    }

    /// Answers a failed refresh, and schedules an automatic one again.
    pub(crate) fn refresh_failed(&mut self, request: u64) {
        if let Some((_, changed)) = self.frontends.refreshes.automatic.take_if(|(automatic, _)| *automatic == request) {
            let now = self.now();
            changed.into_iter().for_each(|path| self.frontends.refreshes.note(now, path));
        }
        let text = "the daemon above this node's in the tree can't be reached, and only the first reads the shared \
                    file system; try again in a moment";
        self.answer_refresh(request, Answer::Error(text.into()));
    }

    fn answer_refresh(&mut self, request: u64, answer: Answer) {
        if let Some(token) = self.frontends.refreshes.waiting.remove(&request) {
            let now = self.now();
            self.frontends.control_socket.answer(now, token, answer);
        }
    }
}
