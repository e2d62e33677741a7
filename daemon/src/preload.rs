//! Fetches files before any request: those of a list, or those that the program will load.
//!
//! Every node requests the same things in the same order, a limited number at once, as its processes would. The
//! requests of all nodes are merged on their way up the trees. So a root reads each thing once, and it comes down as
//! usual: a node that loses its parent asks the next ancestor, and a late node asks later. A root's own requests travel
//! no distance, so it reads ahead of the others.
//!
//! One thread decides what to request and waits for the answers; the event loop feeds its questions to the node. What
//! fails is fetched when it is needed.

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
    /// Starts fetching what the configuration names.
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
            loads_libraries: config.serves_audit(),
            stored: config.stored(),
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
            // The thread ends with the daemon, whose end closes its channels.
            if let Err(error) = std::thread::Builder::new().name("preload".into()).spawn(run) {
                tracing::debug!(%error, "nothing is preloaded");
            }
        }
        Preloading { questions, answers, waiting: HashMap::new(), tally }
    }

    /// Returns true if a question can be taken.
    pub(crate) fn has_next(&self) -> bool {
        !self.questions.is_empty() && self.waiting.len() < QUESTIONS_MAX
    }

    /// Returns the numbers so far.
    pub(crate) fn report(&self) -> Preloaded {
        *self.tally.get()
    }
}
