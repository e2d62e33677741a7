//! Fetching before anybody asks: what a list names, or what the program will be loaded with.
//!
//! Every node asks for the same things in the same order, some at a time, as its processes would. The
//! questions of all meet on their way up the trees, so a root reads each thing once, and it comes down as it
//! always does: whoever loses a parent asks the next, who comes late asks later, and nobody has to know who
//! has what. A root asks without a way to go, so it reads ahead of the others.
//!
//! One thread decides what is next and waits; the event loop gives its questions to the node. Whatever fails
//! is left to be asked for when it is needed.

mod list;
mod program;

use std::collections::HashMap;
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::{Receiver, Sender, unbounded};
use headwater_abi::wire::Fact;
use headwater_abi::{Path, Want};
use headwater_proto::{ClientId, Input, Rank, Reply};
use headwater_topology::TreeId;
use mio::Waker;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::event_loop::Daemon;
use crate::report::Preloaded;

/// Questions that are under way at once.
const QUESTIONS_MAX: usize = 64;

/// What is to be fetched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preload {
    /// What this program is loaded with.
    Program(PreloadProgram),
    /// What this list names.
    List(PreloadList),
}

/// A program that is going to be started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreloadProgram {
    /// Its file, absolute; links are followed.
    pub file: String,
    /// The working directory that it is started in.
    pub cwd: String,
    /// Its `PATH`.
    #[serde(default)]
    pub path: Option<String>,
    /// Its `LD_LIBRARY_PATH`.
    #[serde(default)]
    pub library_path: Option<String>,
    /// Its `LD_PRELOAD`.
    #[serde(default)]
    pub preload: Option<String>,
    /// Its `GLIBC_TUNABLES`.
    #[serde(default)]
    pub tunables: Option<String>,
}

/// A list of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreloadList {
    /// What messages call it.
    pub name: String,
    /// Its entries, each as a line of a closure: see `docs/spec/0004-closure.md`. Others are left out.
    pub entries: Vec<String>,
}

/// What the thread asks.
#[derive(Debug)]
struct Question {
    number: u64,
    path: Path,
    want: Want,
    /// The copy is wanted too, for reading.
    opens: bool,
}

/// What it is told.
#[derive(Debug)]
struct Answer {
    number: u64,
    /// Where the path leads to, and what is known of that; the copy, if it was wanted and is there. `None` if it
    /// could not be had.
    known: Option<(Path, Option<Fact>, Option<File>)>,
}

/// The event loop's side.
pub(crate) struct Preloading {
    questions: Receiver<Question>,
    answers: Sender<Answer>,
    waiting: HashMap<ClientId, Question>,
    tally: Tally,
}

/// What has been done so far.
#[derive(Clone, Debug, Default)]
struct Tally(Arc<Mutex<Preloaded>>);

impl Tally {
    fn get(&self) -> MutexGuard<'_, Preloaded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's side.
struct Asker {
    questions: Sender<Question>,
    answers: Receiver<Answer>,
    waker: Arc<Waker>,
    next: u64,
    tally: Tally,
    /// The node serves a mount: its files are wanted whole, unless they come in blocks.
    whole_bytes_max: Option<u64>,
    /// Of all nodes, this one tells the user.
    tells: bool,
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
            tells: config.forest().root(TreeId(0)) == Rank(config.rank),
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

impl Daemon {
    /// Gives the node what is to be fetched ahead, as far as there is room.
    pub(crate) fn take_questions(&mut self) {
        while self.preloading.has_next() {
            let Ok(question) = self.preloading.questions.try_recv() else { return };
            let client = self.client_ids.next();
            let (path, want) = (question.path.clone(), question.want);
            self.preloading.waiting.insert(client, question);
            self.feed(Input::Preload { client, path, want });
        }
    }

    /// A question is answered. False if it is none of these.
    pub(crate) fn preload_answered(&mut self, client: ClientId, reply: Reply) -> bool {
        let Some(Question { number, path, want, opens }) = self.preloading.waiting.remove(&client) else {
            return false;
        };
        let known = (reply == Reply::Done).then(|| {
            let (at, fact) = self.node.known(&path, want);
            let copy = if opens { self.store.open_copy(&at).ok() } else { None };
            (at, fact.cloned(), copy)
        });
        // The thread may have ended.
        let _ = self.preloading.answers.send(Answer { number, known });
        true
    }
}

impl Asker {
    /// Asks, and gives the question's number; `None` once the daemon ends.
    fn ask(&mut self, path: &Path, want: Want, opens: bool) -> Option<u64> {
        self.next += 1;
        self.questions.send(Question { number: self.next, path: path.clone(), want, opens }).ok()?;
        // If it can't be woken now, the next event wakes it.
        let _ = self.waker.wake();
        Some(self.next)
    }

    /// The next answer; `None` once the daemon ends.
    fn answer(&mut self) -> Option<Answer> {
        self.answers.recv().ok()
    }
}
