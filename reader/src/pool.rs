//! The threads on which reading blocks.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use headwater_abi::wire::Aspect;
use headwater_cache::Cache;
use headwater_store::digest_of;
use mio::Waker;

use crate::cached;
use crate::jobs::{DigestJob, FileError, FileEvent, Opened, ReadEvent, ReadJob};
use crate::reader::Reader;
use crate::reader::SharedFs;

/// Threads at once; more would only queue at the shared file system's servers.
const THREADS_MAX: usize = 8;
/// Stack of a thread, in bytes.
const STACK_BYTES: usize = 256 << 10;
/// Events that are queued for the event loop; then the threads wait.
const EVENTS_MAX: usize = 256;

/// How long events may wait for further ones before the event loop is woken.
const EVENT_WAIT_MAX: Duration = Duration::from_micros(300);

/// Takes jobs and reports events. It starts threads as jobs come, so a rank that is not a reader has none.
#[derive(Debug)]
pub struct Pool {
    /// Unbounded, because the node limits its requests.
    jobs: Sender<ReadJob>,
    /// Submitted jobs that are not sent to the threads yet: see [`Pool::hand_out`].
    pending: Vec<ReadJob>,
    worker: Worker,
    event: Receiver<ReadEvent>,
    threads: usize,
}

#[derive(Clone, Debug)]
struct Worker {
    reader: Arc<Reader>,
    cache: Option<Arc<Cache>>,
    jobs: Receiver<ReadJob>,
    event: Sender<ReadEvent>,
    waker: Arc<Waker>,
    /// True from waking the event loop until it takes an event.
    is_notified: Arc<AtomicBool>,
    /// Jobs that are not finished.
    open_jobs: Arc<AtomicUsize>,
}

impl Pool {
    /// Creates a pool that wakes the event loop for events. With `for_all_users`, it reads only what all users may
    /// read; with `shares_files`, other readers read parts of large files. It looks for content in `cache`.
    pub fn new(
        waker: Arc<Waker>,
        opened: Opened,
        for_all_users: bool,
        shares_files: bool,
        cache: Option<Arc<Cache>>,
    ) -> Pool {
        let reader = Arc::new(Reader::new(opened, for_all_users, shares_files));
        let (jobs, jobs_out) = unbounded();
        let (events_in, event) = bounded(EVENTS_MAX);
        let open_jobs = Arc::default();
        let is_notified = Arc::default();
        let worker = Worker { reader, cache, jobs: jobs_out, event: events_in, waker, is_notified, open_jobs };
        Pool { jobs, pending: Vec::new(), worker, event, threads: 0 }
    }

    /// Submits a job for the next [`Pool::hand_out`].
    pub fn submit(&mut self, job: ReadJob) {
        self.pending.push(job);
    }

    /// Sends the submitted jobs to the threads: several at once, because busy threads need not be woken. Fails if there
    /// is no thread and none can be started.
    pub fn hand_out(&mut self) -> io::Result<()> {
        for job in std::mem::take(&mut self.pending) {
            self.send(job)?;
        }
        Ok(())
    }

    fn send(&mut self, job: ReadJob) -> io::Result<()> {
        let open_jobs = self.worker.open_jobs.fetch_add(1, Ordering::Relaxed);
        if open_jobs >= self.threads && self.threads < THREADS_MAX {
            let worker = self.worker.clone();
            let builder = std::thread::Builder::new().name("reader".into()).stack_size(STACK_BYTES);
            match builder.spawn(move || worker.run()) {
                Ok(_) => self.threads += 1,
                Err(error) if self.threads == 0 => return Err(error),
                Err(error) => tracing::debug!(%error, "no further reader thread"),
            }
        }
        self.jobs.send(job).map_err(io::Error::other)
    }

    /// Returns the next event, if there is one.
    pub fn next_event(&self) -> Option<ReadEvent> {
        // Before the check, so that later events wake the loop.
        self.worker.is_notified.store(false, Ordering::SeqCst);
        self.event.try_recv().ok()
    }

    /// Returns true if there are events.
    pub fn has_events(&self) -> bool {
        !self.event.is_empty()
    }

    /// Drops open directories and files, which may have been replaced.
    pub fn revalidate(&self) {
        self.worker.reader.revalidate();
    }

    /// Returns the counters so far.
    pub fn counts(&self) -> SharedFs {
        self.worker.reader.counts()
    }
}

impl Drop for Pool {
    /// The threads end after their jobs, without being waited for.
    fn drop(&mut self) {
        self.worker.reader.stopping.store(true, Ordering::Relaxed);
    }
}

impl Worker {
    fn run(self) {
        let (mut buffer, mut unreported) = (Vec::new(), None);
        while let Some(job) = self.next(&mut unreported) {
            if self.reader.stopping.load(Ordering::Relaxed) {
                return;
            }
            let began = Instant::now();
            let last = self.execute(job, &mut buffer);
            // First, so that the event loop finds this thread free.
            self.open_jobs.fetch_sub(1, Ordering::Relaxed);
            let Some(event) = last else { continue };
            if self.event.send(event).is_err() {
                return;
            }
            // After a long job, report at once: the next one may take as long.
            if unreported.get_or_insert(began).elapsed() >= EVENT_WAIT_MAX {
                unreported = None;
                if !self.wake() {
                    return;
                }
            }
        }
    }

    /// Returns the next job. Reports pending events before it waits.
    fn next(&self, unreported: &mut Option<Instant>) -> Option<ReadJob> {
        if let Ok(job) = self.jobs.try_recv() {
            return Some(job);
        }
        if unreported.take().is_some() && !self.wake() {
            return None;
        }
        self.jobs.recv().ok()
    }

    /// Executes the job. Returns its last event, unless its content was discarded.
    fn execute(&self, job: ReadJob, buffer: &mut Vec<u8>) -> Option<ReadEvent> {
        match job {
            ReadJob::Entry(path) => {
                let fact = self.reader.entry(&path);
                Some(ReadEvent::Fact(path, Aspect::Entry, fact))
            }
            ReadJob::Listing(path) => {
                let fact = self.reader.listing(&path);
                Some(ReadEvent::Fact(path, Aspect::Listing, fact))
            }
            ReadJob::Details(path, names) => {
                let details = self.reader.details(&path, names);
                Some(ReadEvent::Details(path, details))
            }
            ReadJob::Find(job) => {
                let found = self.cache.as_deref().and_then(|cache| cached::find(cache, &job, buffer));
                Some(ReadEvent::Found(job, found))
            }
            ReadJob::Digest(DigestJob { path, aspect, head, copy }) => {
                let digest = digest_of(&head, |bytes, offset| copy.read_exact_at(bytes, offset));
                let digest =
                    digest.inspect_err(|error| tracing::warn!(%path, %error, "the store's copy can't be read; check the memory and the file system of --store"));
                Some(ReadEvent::Digest(path, aspect, digest.ok()))
            }
            ReadJob::Time(path, offset, bytes) => {
                let us = self.reader.time(&path, offset, bytes, buffer);
                Some(ReadEvent::Timed(path, us.ok()))
            }
            ReadJob::File(job) => {
                let mut report = |event| {
                    self.report(ReadEvent::File(job.clone(), event));
                };
                let event = match self.reader.file(&job, buffer, &mut report) {
                    Ok(event) => event,
                    Err(FileError::GivenUp) => {
                        // The file may have been created after it was discarded.
                        if !job.incoming.is_in_place() {
                            let _ = job.incoming.give_up();
                        }
                        return None;
                    }
                    Err(error) => FileEvent::Failed(error),
                };
                Some(ReadEvent::File(job, event))
            }
        }
    }

    /// Sends an event. Returns false once the pool is gone.
    fn report(&self, event: ReadEvent) -> bool {
        self.event.send(event).is_ok() && self.wake()
    }

    fn wake(&self) -> bool {
        self.is_notified.swap(true, Ordering::SeqCst) || self.waker.wake().is_ok()
    }
}
