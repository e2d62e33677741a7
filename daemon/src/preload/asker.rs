//! The channel between the preloading thread and the event loop, and its numbers.

use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::{Receiver, Sender};
use headwater_abi::wire::Fact;
use headwater_abi::{Path, Want};
use headwater_proto::Stored;
use mio::Waker;

use crate::report::Preloaded;

/// Pending questions at once.
pub(super) const QUESTIONS_MAX: usize = 64;

/// A question of the thread.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) number: u64,
    pub(crate) path: Path,
    pub(crate) want: Want,
    /// One block of a large file.
    pub(crate) block: Option<u32>,
    /// Return the copy too, open for reading.
    pub(crate) opens: bool,
}

/// An answer to the thread.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) number: u64,
    /// The path after links, its fact, and the copy if it was requested and exists. `None` if the request failed.
    pub(crate) known: Option<(Path, Option<Fact>, Option<File>)>,
}

/// The numbers so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(Arc<Mutex<Preloaded>>);

impl Tally {
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
    /// Set if the node serves a mount: files up to this size are fetched whole, larger ones in blocks.
    pub(super) whole_bytes_max: Option<u64>,
    /// Of libraries, the bytes that a loader maps are fetched.
    pub(super) loads_libraries: bool,
    /// The content that is stored; processes read all other from the source files.
    pub(super) stored: Stored,
    /// This node reports to the user, for all nodes.
    pub(super) reports: bool,
}

impl Asker {
    /// Sends a question and returns its number; `None` once the daemon ends.
    pub(super) fn ask(&mut self, path: &Path, want: Want, opens: bool) -> Option<u64> {
        self.send(path, want, None, opens)
    }

    /// The same for a block of a large file, whose canonical path this is.
    pub(super) fn ask_block(&mut self, path: &Path, block: u32) -> Option<u64> {
        self.send(path, Want::ATTR | Want::NO_FOLLOW, Some(block), false)
    }

    fn send(&mut self, path: &Path, want: Want, block: Option<u32>, opens: bool) -> Option<u64> {
        self.next += 1;
        self.questions.send(Question { number: self.next, path: path.clone(), want, block, opens }).ok()?;
        // If waking fails, the next event wakes the loop.
        let _ = self.waker.wake();
        Some(self.next)
    }

    /// Waits for the next answer; `None` once the daemon ends.
    pub(super) fn answer(&mut self) -> Option<Answer> {
        self.answers.recv().ok()
    }
}
