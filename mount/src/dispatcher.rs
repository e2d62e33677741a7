//! Between the threads that serve and the event loop: what waits for the node.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use headwater_abi::Path;
use headwater_fuse::Device;
use headwater_proto::{ClientId, Time};
use mio::Waker;

use crate::call::Demand;
use crate::notifier;
use crate::state::counters::Count;
use crate::state::counts::Counts;
use crate::state::forgetting::Forgetting;
use crate::view::View;
use crate::worker::{Connection, DemandSink, Parked, spawn};

/// Requests that wait at once; more use the original.
const PARKED_MAX: usize = 16 << 10;
/// Interrupts that may be ahead of their request.
const INTERRUPTED_MAX: usize = 64;
/// Requests waiting at once up to which the event loop serves what is ready itself: then waking a
/// thread costs more than it could do at the same time.
const AT_ONCE_MAX: usize = 2;
/// How long a request waits for somebody to be asked, where there are no originals: a reader is started
/// again in that time.
const OUTAGE_MAX: Duration = Duration::from_secs(60);
/// How long it waits for the next generation there.
const GENERATION_MAX: Duration = Duration::from_secs(10);
/// How often that is tried, and whether an interrupted thread is dying is looked at, in milliseconds.
const RETRY_MS: Time = 250;
/// Threads that serve what has waited.
const COMPLETERS: usize = 2;

/// The daemon's side of a mount.
pub struct Mount {
    pub(crate) connection: Arc<Connection>,
    events: Receiver<WorkerEvent>,
    ready: Sender<Parked>,
    parked: Arc<AtomicUsize>,
    pub(crate) waiting: HashMap<ClientId, Parked>,
    /// What waits until somebody can be asked again, where there are no originals.
    retried: Vec<Parked>,
    /// When that is tried.
    try_at: Option<Time>,
    /// What was served at once and waits for something else.
    again: VecDeque<WorkerEvent>,
    dispatcher: RequestDispatcher,
    /// Requests whose threads have got a signal, and that are not kept. They may be yet to come.
    interrupted: VecDeque<u64>,
    pub(crate) forgetting: Forgetting,
}

/// What a worker tells the event loop.
#[derive(Debug)]
pub enum WorkerEvent {
    /// A request waits.
    Demand(Demand, Parked),
    /// Who waits for a request has got a signal.
    Interrupted(u64),
    /// Content was used that the node wants to know of.
    Used(Path, Option<u32>),
}

/// How workers reach the event loop.
#[derive(Clone)]
struct RequestDispatcher {
    events: Sender<WorkerEvent>,
    waker: Arc<Waker>,
    parked: Arc<AtomicUsize>,
}

impl Mount {
    /// Starts to serve `view` on the descriptors of its connection. The threads serve as long as the
    /// file system is mounted, from the originals alone once the [`Mount`] is gone.
    pub(crate) fn start(view: View, devices: Vec<Device>, waker: Arc<Waker>) -> io::Result<Mount> {
        let workers = devices.len();
        let connection = Arc::new(Connection { view, devices, gate: RwLock::default() });
        let notified = Arc::clone(&connection);
        spawn("mount-notices", move || notifier::run(&notified))?;
        let (events, events_out) = crossbeam_channel::unbounded();
        let (ready, ready_out) = crossbeam_channel::unbounded::<Parked>();
        let parked = Arc::new(AtomicUsize::new(0));
        let dispatcher = RequestDispatcher { events, waker, parked: Arc::clone(&parked) };
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
            interrupted: VecDeque::new(),
            forgetting: Forgetting::default(),
        })
    }

    /// Waits until no request is being served, and lets none be served any more: a successor does that.
    pub fn hand_over(&self) {
        std::mem::forget(self.connection.gate.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// The mounted tree.
    pub(crate) fn view(&self) -> &View {
        &self.connection.view
    }

    /// All that was counted so far, by operation.
    pub fn counted(&self) -> BTreeMap<&'static str, Count> {
        self.view().counters.sum()
    }

    /// What a worker wants next.
    pub fn next_event(&mut self) -> Option<WorkerEvent> {
        self.again.pop_front().or_else(|| self.events.try_recv().ok())
    }

    /// What a worker wants next, if that is said within `timeout`.
    pub(crate) fn next_within(&mut self, timeout: Duration) -> Option<WorkerEvent> {
        self.again.pop_front().or_else(|| self.events.recv_timeout(timeout).ok())
    }

    /// True if a worker wants something.
    pub fn has_next(&self) -> bool {
        !self.again.is_empty() || !self.events.is_empty()
    }

    /// Keeps a request until [`Mount::answer`].
    pub fn park(&mut self, now: Time, client: ClientId, mut parked: Parked) {
        if let Some(at) = self.interrupted.iter().position(|unique| *unique == parked.unique) {
            self.interrupted.remove(at);
            parked.is_interrupted = true;
        }
        if parked.is_interrupted {
            self.try_at.get_or_insert(now + RETRY_MS);
        }
        self.waiting.insert(client, parked);
    }

    /// The node has answered. False if this client is none of the mount's.
    pub fn answer(&mut self, client: ClientId, is_known: bool) -> bool {
        let Some(parked) = self.waiting.remove(&client) else { return false };
        self.resume(parked, is_known);
        true
    }

    /// The node has nobody to ask. Where there are no originals the request waits for a while, as those of
    /// other network file systems do. False if this client is none of the mount's, or is not to wait.
    pub fn park_for_retry(&mut self, now: Time, client: ClientId) -> bool {
        let waits = |parked: &Parked| parked.age() < OUTAGE_MAX;
        if self.view().has_source || !self.waiting.get(&client).is_some_and(waits) {
            return false;
        }
        self.retried.extend(self.waiting.remove(&client));
        self.try_at.get_or_insert(now + RETRY_MS);
        true
    }

    /// Has a request wait for the next generation, for a while.
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

    /// If it is time to, has what is held served from its start, and gives up what was asked for by threads that
    /// are dying, whose clients these are. Those that got another signal are looked at again: the kernel tells of
    /// the first one alone.
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

    /// Has a request served again: by a thread, or here and now if nothing else is to be done.
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

    /// Has a thread serve a request again.
    fn hand_out(&self, parked: Parked) {
        self.parked.fetch_sub(1, Ordering::Relaxed);
        // The completing threads end with the process alone.
        let _ = self.ready.send(parked);
    }

    /// The thread that waits for a request has got a signal. If that ends it, the request is given up; its client, if
    /// the node was asked. Otherwise it waits on, as for a disk, where a signal that is handled or ignored interrupts
    /// no call: programs don't expect EINTR of stat().
    pub fn interrupt(&mut self, now: Time, unique: u64) -> Option<ClientId> {
        let Some((&client, parked)) = self.waiting.iter_mut().find(|(_, parked)| parked.unique == unique) else {
            // It is on its way here, or was answered just now.
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

    /// What the kernel asked, for the summary.
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

    /// Has the kernel forget what it knows of a path that has gone live.
    pub fn became_passthrough(&self, path: &Path, tree: bool) {
        let node = self.view().node_of(path);
        let reads = |parked: &Parked| parked.reads().is_some_and(|read| Some(read) == node);
        notifier::became_passthrough(self.view(), path, tree, self.waiting.values().any(reads));
    }

    /// Lets go of a file's copy, so that it can be evicted.
    pub fn close_copy(&self, path: &Path) {
        if let Some(node) = self.view().node_of(path) {
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
    /// What waits, and what is to come, is answered by the originals.
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

impl RequestDispatcher {
    fn send(&self, what: WorkerEvent) {
        if self.events.send(what).is_ok() {
            let _ = self.waker.wake();
        }
    }
}

impl DemandSink for RequestDispatcher {
    fn ask(&self, wanted: Demand, parked: Parked) -> Option<Parked> {
        if self.parked.fetch_add(1, Ordering::Relaxed) >= PARKED_MAX {
            self.parked.fetch_sub(1, Ordering::Relaxed);
            return Some(parked.answered(false));
        }
        match self.events.send(WorkerEvent::Demand(wanted, parked)) {
            Ok(()) => {
                // Fails only where the event loop's descriptor is broken, which it will notice itself.
                let _ = self.waker.wake();
                None
            }
            Err(refused) => match refused.into_inner() {
                WorkerEvent::Demand(_, parked) => Some(parked.answered(false)),
                WorkerEvent::Interrupted(_) | WorkerEvent::Used(..) => None,
            },
        }
    }

    fn interrupt(&self, unique: u64) {
        self.send(WorkerEvent::Interrupted(unique));
    }

    fn used(&self, path: Path, block: Option<u32>) {
        self.send(WorkerEvent::Used(path, block));
    }
}
