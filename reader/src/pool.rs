//! The threads on which the reader's calls block.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use headwater_abi::wire::Aspect;
use headwater_store::digest_of;
use mio::Waker;

use crate::jobs::{DigestJob, FileError, FileEvent, Opened, ReadEvent, ReadJob};
use crate::reader::Reader;
use crate::reader::SharedFs;

/// Threads that read at once; more would only queue at the shared file system's servers.
const THREADS_MAX: usize = 8;
/// Stack of a thread, in bytes.
const STACK_BYTES: usize = 256 << 10;
/// Events that wait for the event loop; a reader that is further ahead waits.
const EVENTS_MAX: usize = 256;

/// How long events may wait for more while there is more to do, before the event loop is woken.
const EVENT_WAIT_MAX: Duration = Duration::from_micros(300);

/// Takes jobs and reports events. Threads are started as jobs come, so a rank that is no reader has
/// none.
#[derive(Debug)]
pub struct Pool {
    reader: Arc<Reader>,
    /// Unbounded, because the node limits what it asks for.
    jobs: Sender<ReadJob>,
    /// Orders that have not been handed out: see [`Pool::hand_out`].
    pending: Vec<ReadJob>,
    worker: Worker,
    event: Receiver<ReadEvent>,
    threads: usize,
}

#[derive(Clone, Debug)]
struct Worker {
    reader: Arc<Reader>,
    jobs: Receiver<ReadJob>,
    event: Sender<ReadEvent>,
    waker: Arc<Waker>,
    /// True once the event loop has been woken and has not looked for events since.
    is_notified: Arc<AtomicBool>,
    /// Orders that have not been answered to their end.
    open_jobs: Arc<AtomicUsize>,
}

impl Pool {
    /// A pool that wakes the event loop for each event. `for_all_users`: reads nothing but what
    /// everybody may read.
    pub fn new(waker: Arc<Waker>, opened: Opened, for_all_users: bool) -> Pool {
        let reader = Arc::new(Reader::new(opened, for_all_users));
        let (jobs, jobs_out) = unbounded();
        let (events_in, event) = bounded(EVENTS_MAX);
        let open_jobs = Arc::default();
        let is_notified = Arc::default();
        let worker =
            Worker { reader: Arc::clone(&reader), jobs: jobs_out, event: events_in, waker, is_notified, open_jobs };
        Pool { reader, jobs, pending: Vec::new(), worker, event, threads: 0 }
    }

    /// Takes a job, to be handed out with others.
    pub fn submit(&mut self, job: ReadJob) {
        self.pending.push(job);
    }

    /// Has the jobs done that were taken: several at a time, since threads that are at work need not
    /// be woken. Fails if there is no thread and none can be started.
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

    /// The next event, if there is one.
    pub fn next_event(&self) -> Option<ReadEvent> {
        // Before the look, so that what comes after it is told of.
        self.worker.is_notified.store(false, Ordering::SeqCst);
        self.event.try_recv().ok()
    }

    /// True if there are events.
    pub fn has_events(&self) -> bool {
        !self.event.is_empty()
    }

    /// Forgets directories that were looked up, and files that were open from the start: they may have
    /// been replaced.
    pub fn revalidate(&self) {
        self.reader.revalidate();
    }

    /// What has been done so far.
    pub fn counts(&self) -> SharedFs {
        self.reader.counts()
    }
}

impl Drop for Pool {
    /// The threads end after what they are doing; nobody waits for them.
    fn drop(&mut self) {
        self.reader.stopping.store(true, Ordering::Relaxed);
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
            // First, so that whoever hears of it finds this thread free.
            self.open_jobs.fetch_sub(1, Ordering::Relaxed);
            let Some(event) = last else { continue };
            if self.event.send(event).is_err() {
                return;
            }
            // What took long is told at once; the next one may take as long.
            if unreported.get_or_insert(began).elapsed() >= EVENT_WAIT_MAX {
                unreported = None;
                if !self.wake() {
                    return;
                }
            }
        }
    }

    /// The next job. Before this thread waits for one, it reports what it has not reported.
    fn next(&self, unreported: &mut Option<Instant>) -> Option<ReadJob> {
        if let Ok(job) = self.jobs.try_recv() {
            return Some(job);
        }
        if unreported.take().is_some() && !self.wake() {
            return None;
        }
        self.jobs.recv().ok()
    }

    /// The last event of the job, if anybody wants to know.
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
            ReadJob::Digest(DigestJob { path, aspect, head, copy }) => {
                let digest = digest_of(&head, |bytes, offset| copy.read_exact_at(bytes, offset));
                let digest =
                    digest.inspect_err(|error| tracing::warn!(%path, %error, "the store's copy can't be read"));
                Some(ReadEvent::Digest(path, aspect, digest.ok()))
            }
            ReadJob::File(job) => {
                let mut report = |event| {
                    self.report(ReadEvent::File(job.clone(), event));
                };
                let event = match self.reader.file(&job, buffer, &mut report) {
                    Ok(event) => event,
                    Err(FileError::GivenUp) => {
                        // The file may have been made after it was given up.
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

    /// False once nobody listens.
    fn report(&self, event: ReadEvent) -> bool {
        self.event.send(event).is_ok() && self.wake()
    }

    fn wake(&self) -> bool {
        self.is_notified.swap(true, Ordering::SeqCst) || self.waker.wake().is_ok()
    }
}
