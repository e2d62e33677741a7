//! Keeps stored content in the node's cache, on a thread of its own.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use headwater_abi::wire::{Aspect, FileHead};
use headwater_abi::{Attr, Path};
use headwater_cache::{Cache, Key};
use headwater_store::Partial;

use crate::report::Cached;

/// How old a change must be: two within one step of a file system's clock can't be distinguished.
const AGE_MIN: Duration = Duration::from_secs(2);
/// How long a daemon that ends waits for what is still to be kept.
const END_WAIT_MAX: Duration = Duration::from_secs(10);
/// What the thread gives way to other work.
const NICENESS: i32 = 10;

/// Content of the store to keep.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) path: Path,
    pub(crate) aspect: Aspect,
    pub(crate) head: FileHead,
    pub(crate) copy: StoredCopy,
}

/// The store's copy.
#[derive(Debug)]
pub(crate) enum StoredCopy {
    /// At this path, if it still is.
    At(PathBuf),
    /// With the block, which stays as long as this is held.
    Partial(Arc<Partial>),
}

/// The use of the node's cache.
#[derive(Debug, Default)]
pub(crate) struct Keeping {
    thread: Option<Thread>,
    /// What came from the cache.
    pub(crate) found: Cached,
}

#[derive(Debug)]
struct Thread {
    stored: Sender<Stored>,
    has_ended: Receiver<()>,
    /// Files that changed later are not kept.
    changed_max: Duration,
}

impl Keeping {
    /// Starts keeping content in `cache`. Without a cache or a thread nothing is kept.
    pub(crate) fn start(cache: Option<Arc<Cache>>) -> Keeping {
        let Some(cache) = cache else { return Keeping::default() };
        let (stored_in, stored) = unbounded::<Stored>();
        let (ended, has_ended) = bounded(1);
        let run = move || {
            let _ = rustix::process::nice(NICENESS);
            for stored in stored {
                keep(&cache, &stored);
            }
            let _ = ended.send(());
        };
        if let Err(error) = std::thread::Builder::new().name("cache".into()).spawn(run) {
            tracing::debug!(%error, "nothing is kept in the cache");
            return Keeping::default();
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let thread = Thread { stored: stored_in, has_ended, changed_max: now.saturating_sub(AGE_MIN) };
        Keeping { thread: Some(thread), found: Cached::default() }
    }

    /// Returns true if content is kept.
    pub(crate) fn is_on(&self) -> bool {
        self.thread.is_some()
    }

    /// Keeps content, unless its file has changed only lately.
    pub(crate) fn keep(&self, stored: Stored) {
        if let Some(thread) = &self.thread
            && changed_at(&stored.head.attr) <= thread.changed_max
        {
            let _ = thread.stored.send(stored);
        }
    }

    /// Waits until all is kept, for some seconds.
    pub(crate) fn end(self) {
        if let Some(Thread { stored, has_ended, .. }) = self.thread {
            drop(stored);
            let _ = has_ended.recv_timeout(END_WAIT_MAX);
        }
    }
}

/// Returns when a file, or its attributes, last changed.
fn changed_at(attr: &Attr) -> Duration {
    let at = |(seconds, nanoseconds): (i64, u32)| Duration::new(seconds.max(0) as u64, nanoseconds.min(999_999_999));
    at(attr.mtime).max(at(attr.ctime))
}

fn keep(cache: &Cache, stored: &Stored) {
    let Stored { path, aspect, head, copy } = stored;
    let key = Key::new(path, &head.attr, *aspect);
    let result = match copy {
        StoredCopy::Partial(partial) => {
            cache.keep(key, head, |bytes, offset| partial.copy().read_exact_at(bytes, offset))
        }
        StoredCopy::At(copy) => File::open(copy).and_then(|copy| {
            cache.keep(key, head, |bytes, offset| {
                copy.read_exact_at(bytes, offset)?;
                if is_of(&copy.metadata()?, head) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
            })
        }),
    };
    match result {
        Ok(_) => {}
        // It was evicted, or has changed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(%error, "the cache can't be written, and nothing more is kept in it: check the directory of --cache");
        }
    }
}

/// Returns true if a copy has this content still. It may have been evicted and fetched in part since, or follow a
/// source file that the job changes.
fn is_of(copy: &Metadata, head: &FileHead) -> bool {
    let attr = &head.attr;
    let is_same = (copy.len(), copy.mtime(), copy.mtime_nsec()) == (attr.size, attr.mtime.0, i64::from(attr.mtime.1));
    is_same && (!head.whole || copy.blocks() * 512 >= attr.size)
}
