//! `refresh`: what has changed is published to processes that start later.

use std::collections::BTreeMap;

use headwater_abi::Path;
use headwater_abi::wire::CHANGES_MAX;
use headwater_proto::Input;
use mio::Token;

use super::protocol::{Answer, PathText, Refreshed};
use crate::event_loop::Daemon;

/// Refreshes that are under way, by the node's number for them.
#[derive(Debug, Default)]
pub(crate) struct Refreshes {
    waiting: BTreeMap<u64, Token>,
    next: u64,
}

impl Daemon {
    /// Begins a refresh; answered once it is done.
    pub(super) fn refresh(&mut self, token: Token, paths: &[PathText]) -> Option<Answer> {
        let Some(paths) = paths.iter().map(|path| Path::new(path.as_bytes())).collect::<Option<Vec<Path>>>() else {
            return Some(Answer::Error("the paths to refresh must be absolute".into()));
        };
        if paths.len() > CHANGES_MAX / 2 {
            let text = format!("at most {} paths can be refreshed at once; name their directory", CHANGES_MAX / 2);
            return Some(Answer::Error(text));
        }
        let request = self.refreshes.next;
        self.refreshes.next += 1;
        self.refreshes.waiting.insert(request, token);
        self.feed(Input::Refresh { request, paths });
        None
    }

    /// A refresh is done.
    pub(crate) fn refreshed(&mut self, request: u64, generation: u64, changed: Option<u64>) {
        let refreshed = Refreshed { generation, changed, files: self.node.stats().store_files };
        self.answer_refresh(request, Answer::Refreshed(refreshed));
    }

    /// A refresh can't be done.
    pub(crate) fn refresh_failed(&mut self, request: u64) {
        let text = "the daemon above this node's in the tree can't be reached, and only the first reads the shared \
                    file system; try again in a moment";
        self.answer_refresh(request, Answer::Error(text.into()));
    }

    fn answer_refresh(&mut self, request: u64, answer: Answer) {
        if let Some(token) = self.refreshes.waiting.remove(&request) {
            let now = self.now();
            self.control_socket.answer(now, token, answer);
        }
    }
}
