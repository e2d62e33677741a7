//! One FUSE request while it is served: its content, its attempts, and what it waits for.

use std::cell::RefCell;
use std::time::Duration;

use headwater_abi::{Attr, Kind, Path, Want};
use headwater_fuse::reply::FOREVER;
use headwater_fuse::{Entry, Operation, Reply, Request};
use rustix::io::Errno;

use crate::state::counters::Tally;
use crate::view::{NAME_BYTES_MAX, ServedBy, View};

/// Answers of the node after which the source file is used. An ordinary request can need several: a path's attributes,
/// a record, content that was evicted in between.
const ROUNDS_MAX: u8 = 4;

/// How long the kernel caches what a source file returned after a failed fetch.
const FALLBACK_TTL: Duration = Duration::from_secs(1);

/// One request being served.
pub(crate) struct Call<'a> {
    pub(crate) view: &'a View,
    pub(crate) request: &'a Request<'a>,
    /// The destination of the answer.
    pub(crate) reply: Reply<'a>,
    /// The index of its descriptor.
    pub(crate) device: usize,
    /// The attempts so far.
    pub(crate) attempt: Attempt,
    /// What the counters record of it.
    pub(crate) tally: Tally,
    /// Marked content that it has read, which is reported to the node: a whole file, or a block.
    pub(crate) used: RefCell<Vec<(Path, Option<u32>)>>,
}

/// One attempt to serve a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// Answers of the node so far.
    pub(crate) rounds: u8,
    /// The node can't help: use the source file.
    pub(crate) must_use_source: bool,
    /// Don't wait for a file system.
    pub(crate) at_once: bool,
}

/// The outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Flow {
    /// It is answered, or needs no answer.
    Answered,
    /// The request waits for this and is then served again.
    Ask(Demand),
    /// The source file at this path serves it.
    UseSource(Path),
}

/// What a request waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Facts or content of a path.
    Want(Path, Want),
    /// One block of a big file.
    Block(Path, u32),
    /// A record for a path that the table lacks; the record's number becomes the node.
    Record(Path),
    /// A thread that may wait for a file system.
    BlockingThread,
    /// The next generation, because no reachable node has this generation's version of the path.
    Generation,
}

impl Call<'_> {
    /// Serves the request from the source file of `path`, or fails where this machine has none.
    pub(crate) fn use_source(&self, path: &Path) -> Flow {
        if !self.view.has_source {
            return match self.error_without_source(path) {
                // The next generation will publish the present version.
                Errno::STALE if !self.attempt.must_use_source && !self.is_superseded() => Flow::Ask(Demand::Generation),
                errno => self.fail(errno),
            };
        }
        if self.attempt.at_once {
            return Flow::Ask(Demand::BlockingThread);
        }
        Flow::UseSource(path.clone())
    }

    /// Returns true if the request is about a file of an older generation, which no later one restores.
    fn is_superseded(&self) -> bool {
        self.view.tables.read(|tables| tables.own(self.request.node.0).is_some_and(|own| own.is_superseded))
    }

    /// Returns the error where no source file of `path` can be used.
    fn error_without_source(&self, path: &Path) -> Errno {
        if let Operation::Getxattr { .. } | Operation::Listxattr { .. } = self.request.operation {
            return Errno::OPNOTSUPP;
        }
        if path.name().len() > NAME_BYTES_MAX || path.is_deep() {
            return Errno::NAMETOOLONG;
        }
        let known =
            self.view.tables.read(|reader| reader.find(path.as_bytes()).map(|record| (record.state, record.attr())));
        match known {
            // No reachable node has the snapshot's version.
            Some((state, _)) if self.view.served_by(path, state) == ServedBy::SourceFile => Errno::STALE,
            // The reader serves only what all users may read.
            Some((_, Some(attr))) if attr.kind() != Kind::Link && attr.mode & 0o004 == 0 => Errno::ACCESS,
            _ => Errno::IO,
        }
    }

    /// Parks the request until the node knows `path`; if that fails, uses the source file.
    pub(crate) fn want(&self, path: &Path, want: Want) -> Flow {
        if self.has_tried_enough() {
            return self.use_source(path);
        }
        Flow::Ask(Demand::Want(path.clone(), want | Want::NO_FOLLOW))
    }

    /// Parks the request until a block of a large file is here.
    pub(crate) fn want_block(&self, path: &Path, block: u32) -> Flow {
        if self.has_tried_enough() {
            return self.use_source(path);
        }
        Flow::Ask(Demand::Block(path.clone(), block))
    }

    /// Returns false if the node has been asked as often as allowed.
    pub(crate) fn may_ask(&self) -> bool {
        self.attempt.rounds <= ROUNDS_MAX
    }

    /// Parks the request until `path` has a record.
    pub(crate) fn want_record(&self, path: &Path) -> Flow {
        if !self.may_ask() {
            return self.fail(Errno::NOMEM);
        }
        Flow::Ask(Demand::Record(path.clone()))
    }

    /// Returns how long the kernel may cache what the source file of `path` returned.
    pub(crate) fn source_ttl(&self, path: &Path) -> Duration {
        if self.view.leads_to_scope(path) && !self.view.in_scope(path) {
            return FOREVER;
        }
        let state = self.view.tables.read(|reader| reader.find(path.as_bytes()).map(|record| record.state));
        match self.view.served_by(path, state.unwrap_or_default()) {
            ServedBy::Snapshot if self.has_tried_enough() => FALLBACK_TTL,
            _ => Duration::ZERO,
        }
    }

    /// Returns true if the node can't help, or has answered often enough without success.
    pub(crate) fn has_tried_enough(&self) -> bool {
        self.attempt.must_use_source || self.attempt.rounds >= ROUNDS_MAX
    }

    /// Answers with a name's node; takes the look-up back if the kernel no longer waits.
    pub(crate) fn answer_entry(&self, entry: &Entry) -> Flow {
        if self.reply.entry(entry).is_err()
            && let Some(node) = entry.node
        {
            self.view.release(node, 1);
        }
        Flow::Answered
    }

    /// Answers GETATTR or STATX.
    pub(crate) fn answer_attr(&self, attr: &Attr, ttl: Duration) -> Flow {
        let with_birth = self.request.operation == Operation::Statx;
        answered(if with_birth { self.reply.statx(attr, ttl) } else { self.reply.attr(attr, ttl) })
    }

    /// Answers ENOSYS, which the kernel remembers for this operation.
    pub(crate) fn unsupported(&self) -> Flow {
        answered(self.reply.error(Errno::NOSYS.raw_os_error()))
    }

    /// Answers with an error number.
    pub(crate) fn fail(&self, errno: Errno) -> Flow {
        self.tally.error();
        answered(self.reply.error(errno.raw_os_error()))
    }
}

/// Logs a reply that the kernel refused. It refuses only replies that it no longer waits for; a lost connection is
/// noticed at the next read.
pub(crate) fn answered(written: std::io::Result<()>) -> Flow {
    if let Err(error) = written {
        tracing::debug!(%error, "the kernel refused a reply");
    }
    Flow::Answered
}
