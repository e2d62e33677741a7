//! One request on its way through the daemon: what it is, how often it was tried, and what it waits for.

use std::cell::RefCell;
use std::time::Duration;

use headwater_abi::{Kind, Path, Want};
use headwater_fuse::reply::FOREVER;
use headwater_fuse::{Entry, Operation, Reply, Request};
use rustix::io::Errno;

use crate::state::attempt::Attempt;
use crate::state::counters::Tally;
use crate::view::{NAME_BYTES_MAX, ServedBy, View};

/// Answers of the node after which the original is used. A way of its own can need several: a path's
/// attributes, a record, content that was evicted meanwhile.
const ROUNDS_MAX: u8 = 4;

/// How long what an original says in place of a failed fetch is believed.
const FALLBACK_TTL: Duration = Duration::from_secs(1);

/// One request being served.
pub(crate) struct Call<'a> {
    /// The tree.
    pub(crate) view: &'a View,
    /// The request.
    pub(crate) request: &'a Request<'a>,
    /// Where the answer goes.
    pub(crate) reply: Reply<'a>,
    /// How often it was tried.
    pub(crate) attempt: Attempt,
    /// What the counters are told of it.
    pub(crate) tally: Tally,
    /// What of its path's content it has used that the node wants to know of: all of it, or a block.
    pub(crate) used: RefCell<Vec<(Path, Option<u32>)>>,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Flow {
    /// It is answered, or needs no answer.
    Answered,
    /// It is to wait for this, and to be served again then.
    Ask(Demand),
    /// The original at this path is to answer it.
    UseSource(Path),
}

/// What a request waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Knowledge of a path.
    Want(Path, Want),
    /// One block of a big file.
    Block(Path, u32),
    /// A record for a path of which the table says nothing, so that it has a number.
    Record(Path),
    /// A thread that may wait for a file system.
    BlockingThread,
    /// The next generation: this one's version of a path is nowhere to be had.
    Generation,
}

impl Call<'_> {
    /// The original of `path` is to answer, or it fails where there are none.
    pub(crate) fn use_source(&self, path: &Path) -> Flow {
        if !self.view.has_source {
            return match self.error_without_source(path) {
                // A generation will begin in which it is as it is by now.
                Errno::STALE if !self.attempt.must_use_source && !self.is_superseded() => Flow::Ask(Demand::Generation),
                errno => self.fail(errno),
            };
        }
        if self.attempt.at_once {
            return Flow::Ask(Demand::BlockingThread);
        }
        Flow::UseSource(path.clone())
    }

    /// True if the request is about a file of an older generation: no later one brings that back.
    fn is_superseded(&self) -> bool {
        self.view.table(|tables| tables.own(self.request.node.0).is_some_and(|own| own.is_superseded))
    }

    /// The error where there is no original of `path` to be used.
    fn error_without_source(&self, path: &Path) -> Errno {
        if let Operation::Getxattr { .. } | Operation::Listxattr { .. } = self.request.operation {
            return Errno::OPNOTSUPP;
        }
        if path.name().len() > NAME_BYTES_MAX || path.is_deep() {
            return Errno::NAMETOOLONG;
        }
        let known = self.view.table(|reader| reader.find(path.as_bytes()).map(|record| (record.state, record.attr())));
        match known {
            // The snapshot's version is nowhere to be had.
            Some((state, _)) if self.view.served_by(path, state) == ServedBy::SourceFile => Errno::STALE,
            // The reader gives out what everybody may read.
            Some((_, Some(attr))) if attr.kind() != Kind::Link && attr.mode & 0o004 == 0 => Errno::ACCESS,
            _ => Errno::IO,
        }
    }

    /// Has the request wait for knowledge of `path`, and uses the original where that can't be had.
    pub(crate) fn want(&self, path: &Path, want: Want) -> Flow {
        if self.has_tried_enough() {
            return self.use_source(path);
        }
        Flow::Ask(Demand::Want(path.clone(), want | Want::NO_FOLLOW))
    }

    /// Has the request wait for a block of a large file.
    pub(crate) fn want_block(&self, path: &Path, block: u32) -> Flow {
        if self.has_tried_enough() {
            return self.use_source(path);
        }
        Flow::Ask(Demand::Block(path.clone(), block))
    }

    /// False if all that could be waited for has come, or will not.
    pub(crate) fn may_ask(&self) -> bool {
        self.attempt.rounds <= ROUNDS_MAX
    }

    /// Has the request wait until `path` has a record.
    pub(crate) fn want_record(&self, path: &Path) -> Flow {
        if !self.may_ask() {
            return self.fail(Errno::NOMEM);
        }
        Flow::Ask(Demand::Record(path.clone()))
    }

    /// How long what the original says about `path` may be believed.
    pub(crate) fn source_ttl(&self, path: &Path) -> Duration {
        if self.view.leads_to_scope(path) && !self.view.in_scope(path) {
            return FOREVER;
        }
        let state = self.view.table(|reader| reader.find(path.as_bytes()).map(|record| record.state));
        match self.view.served_by(path, state.unwrap_or_default()) {
            ServedBy::Snapshot if self.has_tried_enough() => FALLBACK_TTL,
            _ => Duration::ZERO,
        }
    }

    /// True if the node can't help, or has not though it said so.
    pub(crate) fn has_tried_enough(&self) -> bool {
        self.attempt.must_use_source || self.attempt.rounds >= ROUNDS_MAX
    }

    /// Answers with a name's node, and takes its look-up back if the kernel did not want it.
    pub(crate) fn answer_entry(&self, entry: &Entry) -> Flow {
        if self.reply.entry(entry).is_err()
            && let Some(node) = entry.node
        {
            self.view.release(node, 1);
        }
        Flow::Answered
    }

    /// Answers that this operation is not supported, which the kernel remembers.
    pub(crate) fn unsupported(&self) -> Flow {
        answered(self.reply.error(Errno::NOSYS.raw_os_error()))
    }

    /// Answers with an error number.
    pub(crate) fn fail(&self, errno: Errno) -> Flow {
        self.tally.error();
        answered(self.reply.error(errno.raw_os_error()))
    }
}

/// A reply was written. The kernel refuses only what it has stopped waiting for, and a connection
/// that is gone shows at the next read.
pub(crate) fn answered(written: std::io::Result<()>) -> Flow {
    if let Err(error) = written {
        tracing::debug!(%error, "the kernel took no answer");
    }
    Flow::Answered
}
