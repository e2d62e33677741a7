//! Fetching before anybody asks: what a list names, or what the program will be loaded with.
//!
//! Every node asks for the same things in the same order, some at a time, as its processes would. The
//! questions of all meet on their way up the trees, so a root reads each thing once, and it comes down as it
//! always does: whoever loses a parent asks the next, who comes late asks later, and nobody has to know who
//! has what. A root asks without a way to go, so it reads ahead of the others.
//!
//! One thread decides what is next and waits; the event loop gives its questions to the node. Whatever fails
//! is left to be asked for when it is needed.

pub(crate) mod asker;
mod list;
pub(crate) mod plan;
mod program;

use std::collections::HashMap;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, unbounded};
use headwater_abi::Path;
use headwater_proto::{ClientId, Rank};
use headwater_topology::TreeId;
use mio::Waker;

use crate::config::Config;
use crate::preload::asker::{Answer, Asker, QUESTIONS_MAX, Question, Tally};
use crate::preload::plan::Preload;
use crate::report::Preloaded;

/// The event loop's side.
pub(crate) struct Preloading {
    pub(crate) questions: Receiver<Question>,
    pub(crate) answers: Sender<Answer>,
    pub(crate) waiting: HashMap<ClientId, Question>,
    pub(crate) tally: Tally,
}

impl Preloading {
    /// Begins with what the configuration names.
    pub(crate) fn start(config: &Config, scope: &[(bool, Path)], waker: &Arc<Waker>) -> Preloading {
        let (questions_in, questions) = unbounded();
        let (answers, answers_out) = unbounded();
        let tally = Tally::default();
        let asker = Asker {
            questions: questions_in,
            answers: answers_out,
            waker: Arc::clone(waker),
            next: 0,
            tally: tally.clone(),
            whole_bytes_max: config.mount.is_some().then_some(config.whole_file_bytes_max),
            reports: config.forest().root(TreeId(0)) == Rank(config.rank),
        };
        tally.get().has_ended = config.preload.is_none();
        if let Some(preload) = config.preload.clone() {
            let scope = scope.to_vec();
            let ended = tally.clone();
            let run = move || {
                match preload {
                    Preload::List(list) => list::fetch(asker, &list),
                    Preload::Program(program) => program::fetch(asker, &program, scope),
                }
                ended.get().has_ended = true;
            };
            // It ends with the daemon, when nobody takes its questions any more.
            if let Err(error) = std::thread::Builder::new().name("preload".into()).spawn(run) {
                tracing::debug!(%error, "nothing is preloaded");
            }
        }
        Preloading { questions, answers, waiting: HashMap::new(), tally }
    }

    /// True if there is a question to be taken.
    pub(crate) fn has_next(&self) -> bool {
        !self.questions.is_empty() && self.waiting.len() < QUESTIONS_MAX
    }

    /// What has been done so far.
    pub(crate) fn report(&self) -> Preloaded {
        *self.tally.get()
    }
}
