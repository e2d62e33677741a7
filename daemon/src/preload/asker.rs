//! How the thread that fetches asks the event loop, and what it has done so far.

use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::{Receiver, Sender};
use headwater_abi::wire::Fact;
use headwater_abi::{Path, Want};
use mio::Waker;

use crate::report::Preloaded;

/// Questions that are under way at once.
pub(super) const QUESTIONS_MAX: usize = 64;

/// What the thread asks.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) number: u64,
    pub(crate) path: Path,
    pub(crate) want: Want,
    /// The copy is wanted too, for reading.
    pub(crate) opens: bool,
}

/// What it is told.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) number: u64,
    /// Where the path leads to, and what is known of that; the copy, if it was wanted and is there. `None` if it
    /// could not be had.
    pub(crate) known: Option<(Path, Option<Fact>, Option<File>)>,
}

/// What has been done so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(Arc<Mutex<Preloaded>>);

impl Tally {
    /// Locks it.
    pub(super) fn get(&self) -> MutexGuard<'_, Preloaded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's side.
pub(super) struct Asker {
    pub(super) questions: Sender<Question>,
    pub(super) answers: Receiver<Answer>,
    pub(super) waker: Arc<Waker>,
    pub(super) next: u64,
    pub(super) tally: Tally,
    /// The node serves a mount: its files are wanted whole, unless they come in blocks.
    pub(super) whole_bytes_max: Option<u64>,
    /// Of all nodes, this one tells the user.
    pub(super) reports: bool,
}

impl Asker {
    /// Asks, and gives the question's number; `None` once the daemon ends.
    pub(super) fn ask(&mut self, path: &Path, want: Want, opens: bool) -> Option<u64> {
        self.next += 1;
        self.questions.send(Question { number: self.next, path: path.clone(), want, opens }).ok()?;
        // If it can't be woken now, the next event wakes it.
        let _ = self.waker.wake();
        Some(self.next)
    }

    /// The next answer; `None` once the daemon ends.
    pub(super) fn answer(&mut self) -> Option<Answer> {
        self.answers.recv().ok()
    }
}
