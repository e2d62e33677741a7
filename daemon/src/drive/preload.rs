//! Preloading.

use headwater_proto::{ClientId, Input, Reply};

use super::Daemon;
use crate::preload::asker::{Answer, Question};

impl Daemon {
    /// Feeds questions of the preloading thread to the node, up to their limit.
    pub(crate) fn take_questions(&mut self) {
        while self.housekeeping.preloading.has_next() {
            let Ok(question) = self.housekeeping.preloading.questions.try_recv() else { return };
            let client = self.frontends.client_ids.next();
            let (path, want, block) = (question.path.clone(), question.want, question.block);
            self.housekeeping.preloading.waiting.insert(client, question);
            self.feed(Input::Preload { client, path, want, block });
        }
    }

    /// Answers a question of the preloading thread. Returns false if `client` is none of its questions.
    pub(crate) fn preload_answered(&mut self, client: ClientId, reply: Reply) -> bool {
        let Some(Question { number, path, want, opens, .. }) = self.housekeeping.preloading.waiting.remove(&client)
        else {
            return false;
        };
        let known = (reply == Reply::Done).then(|| {
            let (at, fact) = self.driver.node.known(&path, want);
            let copy = if opens { self.content.store.open_copy(&at).ok() } else { None };
            (at, fact.cloned(), copy)
        });
        // The thread may have ended.
        let _ = self.housekeeping.preloading.answers.send(Answer { number, known });
        true
    }
}
