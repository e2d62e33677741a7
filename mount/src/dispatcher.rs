//! The link between workers and the event loop: parked requests and their answers.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use headwater_abi::Path;
use headwater_fuse::{Device, NodeId};
use headwater_proto::{ClientId, Time};
use mio::Waker;

use crate::call::Demand;
use crate::notifier;
use crate::source_file::locks::handover::LockHandover;
use crate::source_file::locks::keeper;
use crate::state::counters::Count;
use crate::state::counts::Counts;
use crate::view::View;
use crate::worker::{Connection, Parked, RequestDispatcher, WorkerEvent, spawn};

/// Interrupts that may arrive before their request is parked.
const INTERRUPTED_MAX: usize = 64;
/// Up to this many parked requests the event loop serves a ready one itself: waking a thread would cost more.
const AT_ONCE_MAX: usize = 2;
/// How long a request is retried while no parent or reader is reachable and there are no source files. A reader
/// restarts within that time.
const OUTAGE_MAX: Duration = Duration::from_secs(60);
/// How long a request is retried until the next generation begins.
const GENERATION_MAX: Duration = Duration::from_secs(10);
/// Interval between retries and between checks of interrupted threads, in milliseconds.
const RETRY_MS: Time = 250;
/// Threads that serve requests whose answer has arrived.
const COMPLETERS: usize = 2;

/// The daemon's side of a mount.
pub struct Mount {
    pub(crate) connection: Arc<Connection>,
    events: Receiver<WorkerEvent>,
    ready: Sender<Parked>,
    parked: Arc<AtomicUsize>,
    pub(crate) waiting: HashMap<ClientId, Parked>,
    /// Requests that are retried while no parent is reachable, without source files.
    retried: Vec<Parked>,
    /// When they are retried.
    try_at: Option<Time>,
    /// Events of requests that the event loop served itself and that wait again.
    again: VecDeque<WorkerEvent>,
    dispatcher: RequestDispatcher,
    /// The number of [`Mount::settle`], until the event or a change that would wait for it.
    settling: Option<u32>,
    /// Interrupted requests that are not parked, perhaps not yet.
    interrupted: VecDeque<u64>,
    pub(crate) forgetting: Forgetting,
}

/// Paths that the node has forgotten and the kernel has not.
#[derive(Debug, Default)]
pub(crate) struct Forgetting {
    pub(crate) waiting: HashSet<Path>,
    /// All that wait, in order, and some that no longer wait.
    pub(crate) order: VecDeque<Path>,
    /// Paths whose records exist only for their numbers.
    pub(crate) numbered: VecDeque<Path>,
}

impl Mount {
    /// Starts serving `view` on the descriptors of its connection. The threads serve while the file system is mounted;
    /// once the [`Mount`] is dropped, from the source files alone.
    pub(crate) fn start(view: View, devices: Vec<Device>, locks: LockHandover, waker: Arc<Waker>) -> io::Result<Mount> {
        let workers = devices.len();
        let connection = Arc::new(Connection { view, devices, gate: RwLock::default() });
        let (events, events_out) = crossbeam_channel::unbounded();
        let (ready, ready_out) = crossbeam_channel::unbounded::<Parked>();
        let parked = Arc::new(AtomicUsize::new(0));
        let dispatcher = RequestDispatcher { events, waker, parked: Arc::clone(&parked) };
        let (notified, informed) = (Arc::clone(&connection), dispatcher.clone());
        spawn("mount-notices", move || notifier::run(&notified, &informed))?;
        let keeping = Arc::clone(&connection);
        locks.note_in(&connection.view.source_files.locks, connection.view.has_source);
        spawn("mount-locks", move || keeper::run(&keeping, locks))?;
        for device in 0..workers {
            let (connection, dispatcher) = (Arc::clone(&connection), dispatcher.clone());
            spawn("mount", move || connection.work(device, &dispatcher))?;
        }
        for _ in 0..COMPLETERS {
            let (connection, dispatcher, ready) = (Arc::clone(&connection), dispatcher.clone(), ready_out.clone());
            spawn("mount-ready", move || connection.complete(&ready, &dispatcher))?;
        }
        Ok(Mount {
            connection,
            events: events_out,
            ready,
            parked,
            waiting: HashMap::new(),
            retried: Vec::new(),
            try_at: None,
            again: VecDeque::new(),
            dispatcher,
            settling: None,
            interrupted: VecDeque::new(),
            forgetting: Forgetting::default(),
        })
    }

    /// Waits until no request is being served, and blocks further ones: a successor serves them.
    pub fn hand_over(&self) {
        std::mem::forget(self.connection.gate.write().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn view(&self) -> &View {
        &self.connection.view
    }

    /// Returns all counters so far, by operation.
    pub fn counted(&self) -> BTreeMap<&'static str, Count> {
        self.view().counters.sum()
    }

    /// Returns the next event of a worker.
    pub fn next_event(&mut self) -> Option<WorkerEvent> {
        self.again.pop_front().or_else(|| self.events.try_recv().ok())
    }

    /// Returns the next event of a worker, or `None` after `timeout`.
    pub(crate) fn next_within(&mut self, timeout: Duration) -> Option<WorkerEvent> {
        self.again.pop_front().or_else(|| self.events.recv_timeout(timeout).ok())
    }

    /// Returns true if an event of a worker is pending.
    pub fn has_next(&self) -> bool {
        !self.again.is_empty() || !self.events.is_empty()
    }

    /// Parks a request until [`Mount::answer`].
    pub fn park(&mut self, now: Time, client: ClientId, mut parked: Parked) {
        if let Some(at) = self.interrupted.iter().position(|unique| *unique == parked.unique) {
            self.interrupted.remove(at);
            parked.is_interrupted = true;
        }
        if parked.is_interrupted {
            self.try_at.get_or_insert(now + RETRY_MS);
        }
        let locked = if self.settling.is_some() { parked.locks(self.view()) } else { Vec::new() };
        self.waiting.insert(client, parked);
        if self.view().notices.concern(&locked) {
            self.again.extend(self.settling.take().map(WorkerEvent::Settled));
        }
    }

    /// Ends the waiting of [`Mount::settle`].
    pub fn settled(&mut self, number: u32) {
        self.settling.take_if(|waiting| *waiting == number);
    }

    /// Sends [`WorkerEvent::Settled`] once the kernel has got all notifications that wait now. It gets one only when a
    /// lock is free. A change that waits for other nodes has such locks, and these nodes may wait for this one: so
    /// the event doesn't wait for notifications about the nodes that changes have locked.
    pub fn settle(&mut self, number: u32) {
        let notices = &self.connection.view.notices;
        let locked: Vec<NodeId> = self.waiting.values().flat_map(|parked| parked.locks(self.view())).collect();
        if notices.concern(&locked) || !notices.mark(number) {
            self.again.push_back(WorkerEvent::Settled(number));
        } else {
            self.settling = Some(number);
        }
    }

    /// Resumes the request that the node has answered. Returns false if `client` is not the mount's.
    pub fn answer(&mut self, client: ClientId, is_known: bool) -> bool {
        let Some(parked) = self.waiting.remove(&client) else { return false };
        self.resume(parked, is_known);
        true
    }

    /// Parks a request again because the node can reach neither parent nor reader. As on other network file systems, it
    /// then waits for a while if there are no source files. Returns false if `client` is not the mount's or must not
    /// wait.
    pub fn park_for_retry(&mut self, now: Time, client: ClientId) -> bool {
        let waits = |parked: &Parked| parked.age() < OUTAGE_MAX;
        if self.view().has_source || !self.waiting.get(&client).is_some_and(waits) {
            return false;
        }
        self.retried.extend(self.waiting.remove(&client));
        self.try_at.get_or_insert(now + RETRY_MS);
        true
    }

    /// Parks a request until the next generation begins, for a limited time.
    pub fn wait_for_generation(&mut self, now: Time, parked: Parked) {
        if parked.age() >= GENERATION_MAX {
            return self.hand_out(parked.answered(false));
        }
        self.retried.push(parked);
        self.try_at.get_or_insert(now + RETRY_MS);
    }

    /// When [`Mount::try_again`] is due.
    pub fn try_at(&self) -> Option<Time> {
        self.try_at
    }

    /// If it is due, serves requests from `retried` again, and cancels those of dying threads. Returns the clients of
    /// the cancelled ones. Threads that received another signal are checked again: the kernel reports the first signal
    /// only.
    pub fn try_again(&mut self, now: Time) -> Vec<ClientId> {
        if self.try_at.is_none_or(|at| now < at) {
            return Vec::new();
        }
        self.try_at = None;
        for parked in std::mem::take(&mut self.retried) {
            self.hand_out(parked);
        }
        let interrupted = self.waiting.iter().filter(|(_, parked)| parked.is_interrupted);
        let (dying, living): (Vec<_>, Vec<_>) =
            interrupted.map(|(client, parked)| (*client, parked.thread_is_dying())).partition(|(_, dying)| *dying);
        if !living.is_empty() {
            self.try_at = Some(now + RETRY_MS);
        }
        for (client, _) in &dying {
            self.waiting.remove(client).iter().for_each(|parked| self.give_up(parked));
        }
        dying.into_iter().map(|(client, _)| client).collect()
    }

    /// Serves a request again, on this thread if nothing else is pending, otherwise on another.
    pub fn resume(&mut self, parked: Parked, is_known: bool) {
        if !is_known || self.waiting.len() > AT_ONCE_MAX || !self.events.is_empty() {
            return self.hand_out(parked.answered(is_known));
        }
        match self.connection.serve_at_once(parked.answered(true), &self.dispatcher) {
            None => {
                self.parked.fetch_sub(1, Ordering::Relaxed);
            }
            Some((Demand::BlockingThread, parked)) => self.hand_out(parked),
            Some((wanted, parked)) => self.again.push_back(WorkerEvent::Demand(wanted, parked)),
        }
    }

    /// Passes a request to a thread that serves it again.
    fn hand_out(&self, parked: Parked) {
        self.parked.fetch_sub(1, Ordering::Relaxed);
        // The completing threads live as long as the process.
        let _ = self.ready.send(parked);
    }

    /// Handles a signal of the thread that waits for a request. If the signal ends the thread, the request is
    /// cancelled; returns its client if the node was asked. Otherwise the request waits on, as for a disk: a handled or
    /// ignored signal does not interrupt it, because programs don't expect EINTR of stat().
    pub fn interrupt(&mut self, now: Time, unique: u64) -> Option<ClientId> {
        let Some((&client, parked)) = self.waiting.iter_mut().find(|(_, parked)| parked.unique == unique) else {
            // The request is about to be parked, or was just answered.
            if self.interrupted.len() >= INTERRUPTED_MAX {
                self.interrupted.pop_front();
            }
            self.interrupted.push_back(unique);
            return None;
        };
        if !parked.thread_is_dying() {
            parked.is_interrupted = true;
            self.try_at.get_or_insert(now + RETRY_MS);
            return None;
        }
        let parked = self.waiting.remove(&client)?;
        self.give_up(&parked);
        Some(client)
    }

    /// Returns the counters of the summary.
    pub fn report(&self) -> Counts {
        let sum = self.view().counters.sum();
        let of = |names: &[&str]| names.iter().filter_map(|name| sum.get(name)).map(Count::requests).sum::<u64>();
        Counts {
            upcalls: sum.values().map(Count::requests).sum::<u64>() - of(&["forget", "connection"]),
            lookups: of(&["lookup"]),
            getattrs: of(&["getattr"]),
            opens: of(&["open", "opendir"]),
            reads: of(&["read"]),
            readdirs: of(&["readdir", "readdirplus"]),
            ioctls: of(&["ioctl"]),
            asked: sum.values().map(|count| count.asked).sum(),
            from_original: sum
                .iter()
                .filter(|(name, _)| !Counts::OF_SOURCE.contains(name))
                .map(|(_, count)| count.from_original)
                .sum(),
            bytes: sum.get("read").map_or(0, |count| count.bytes),
        }
    }

    /// Makes the kernel forget what it caches of a new passthrough path.
    pub fn became_passthrough(&self, path: &Path, tree: bool) {
        let node = self.view().tables.node_of(path);
        let reads = |parked: &Parked| parked.reads().is_some_and(|read| Some(read) == node);
        notifier::became_passthrough(self.view(), path, tree, self.waiting.values().any(reads));
    }

    /// Closes a file's copy, so that it can be evicted.
    pub fn close_copy(&self, path: &Path) {
        if let Some(node) = self.view().tables.node_of(path) {
            self.view().source_files.served.mark_served(node);
            self.view().contents.close(node);
        }
    }

    fn give_up(&self, parked: &Parked) {
        self.parked.fetch_sub(1, Ordering::Relaxed);
        self.connection.give_up(parked);
    }
}

impl Drop for Mount {
    /// The source files serve all parked requests and those that follow.
    fn drop(&mut self) {
        self.view().notices.close();
        let retried = std::mem::take(&mut self.retried);
        for parked in std::mem::take(&mut self.waiting).into_values().chain(retried) {
            self.hand_out(parked.answered(false));
        }
        while let Some(event) = self.next_event() {
            if let WorkerEvent::Demand(_, parked) = event {
                self.hand_out(parked.answered(false));
            }
        }
    }
}
