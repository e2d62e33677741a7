//! The threads that serve FUSE requests, from the device to the answer.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, SendError, Sender};
use headwater_abi::Path;
use headwater_fuse::{Device, NodeId, Operation, Reply, Request};
use mio::Waker;
use rustix::io::Errno;

use crate::call::{Attempt, Call, Demand};
use crate::caller::is_dying;
use crate::change::locked_by;
use crate::serve::serve;
use crate::state::counters::Tally;
use crate::view::View;

/// Requests that are parked at once; further ones use the source files.
const PARKED_MAX: usize = 16 << 10;

/// A mounted tree and the descriptors of its connection.
pub(crate) struct Connection {
    pub(crate) view: View,
    /// The connection, once for each worker. A reply is written to the descriptor of its request.
    pub(crate) devices: Vec<Device>,
    /// Locked shared while a request is served.
    pub(crate) gate: RwLock<()>,
}

/// A parked request.
#[derive(Debug)]
pub struct Parked {
    bytes: Box<[u8]>,
    /// The kernel's number of the request.
    pub(crate) unique: u64,
    /// The index of its descriptor.
    device: usize,
    /// The attempts so far.
    pub(crate) attempt: Attempt,
    read_at: Instant,
    /// The waiting thread has received a signal that does not end it. The kernel reports only the first.
    pub(crate) is_interrupted: bool,
}

/// An event of a worker, for the event loop.
#[derive(Debug)]
pub enum WorkerEvent {
    /// A request has to wait.
    Demand(Demand, Parked),
    /// The thread that waits for a request has received a signal.
    Interrupted(u64),
    /// The kernel has got the notifications that waited when [`Mount::settle`](crate::Mount::settle) had this number.
    Settled(u32),
    /// Marked content was read.
    Used(Path, Option<u32>),
}

/// The workers' link to the event loop: sends events and wakes it.
#[derive(Clone)]
pub(crate) struct RequestDispatcher {
    pub(crate) events: Sender<WorkerEvent>,
    pub(crate) waker: Arc<Waker>,
    /// Parked requests.
    pub(crate) parked: Arc<AtomicUsize>,
}

impl RequestDispatcher {
    /// Parks a request until `wanted` is here. Returns the request if it can't be parked: then it must use the source
    /// file.
    fn ask(&self, wanted: Demand, parked: Parked) -> Option<Parked> {
        if self.parked.fetch_add(1, Ordering::Relaxed) >= PARKED_MAX {
            self.parked.fetch_sub(1, Ordering::Relaxed);
            return Some(parked.answered(false));
        }
        match self.send(WorkerEvent::Demand(wanted, parked)) {
            Err(SendError(WorkerEvent::Demand(_, parked))) => Some(parked.answered(false)),
            _ => None,
        }
    }

    pub(crate) fn settled(&self, number: u32) {
        drop(self.send(WorkerEvent::Settled(number)));
    }

    fn send(&self, what: WorkerEvent) -> Result<(), SendError<WorkerEvent>> {
        self.events.send(what)?;
        // Fails only if the event loop's descriptor is broken, which the loop notices itself.
        let _ = self.waker.wake();
        Ok(())
    }
}

impl Connection {
    /// Reads and serves requests of one descriptor until the file system is unmounted.
    pub(crate) fn work(&self, device: usize, dispatcher: &RequestDispatcher) {
        let mut buffer = vec![0; Device::request_bytes_max(self.view.config.negotiated.transfer_bytes_max)];
        loop {
            match self.devices[device].read(&mut buffer) {
                Ok(0) => return self.view.source_files.locks.close(),
                Ok(bytes) => self.take(&buffer[..bytes], device, dispatcher),
                Err(error) => {
                    tracing::error!(%error, "/dev/fuse can't be read; the mounted file system may hang");
                    return;
                }
            }
        }
    }

    /// Serves requests whose answer has arrived, until the channel closes.
    pub(crate) fn complete(&self, ready: &Receiver<Parked>, dispatcher: &RequestDispatcher) {
        for parked in ready {
            self.serve_parked(parked, dispatcher);
        }
    }

    /// Serves a request again.
    pub(crate) fn serve_parked(&self, mut parked: Parked, dispatcher: &RequestDispatcher) {
        loop {
            let Ok(request) = Request::decode(&parked.bytes) else { return };
            let Parked { device, attempt, read_at, .. } = parked;
            let Some(wanted) = self.serve(&request, device, attempt, read_at, dispatcher) else { return };
            match dispatcher.ask(wanted, parked) {
                Some(again) => parked = again,
                None => return,
            }
        }
    }

    /// Serves a request again without blocking. If it has to wait, returns it with what it waits for.
    pub(crate) fn serve_at_once(&self, parked: Parked, dispatcher: &RequestDispatcher) -> Option<(Demand, Parked)> {
        let request = Request::decode(&parked.bytes).ok()?;
        if !is_quick(&request.operation) {
            return Some((Demand::BlockingThread, parked));
        }
        let attempt = Attempt { at_once: true, ..parked.attempt };
        let wanted = self.serve(&request, parked.device, attempt, parked.read_at, dispatcher)?;
        Some((wanted, parked))
    }

    /// Answers EINTR to a parked request whose thread is dying.
    pub(crate) fn give_up(&self, parked: &Parked) {
        let reply = Reply { device: &self.devices[parked.device], unique: parked.unique };
        let _ = reply.error(Errno::INTR.raw_os_error());
    }

    fn take(&self, bytes: &[u8], device: usize, dispatcher: &RequestDispatcher) {
        let read_at = Instant::now();
        let request = match Request::decode(bytes) {
            Ok(request) => request,
            Err(error) => {
                tracing::warn!(%error, "the kernel sent a request that can't be decoded");
                if error.unique != 0 {
                    let reply = Reply { device: &self.devices[device], unique: error.unique };
                    let _ = reply.error(Errno::IO.raw_os_error());
                }
                return;
            }
        };
        if let Operation::Interrupt { unique } = request.operation {
            self.view.source_files.locks.interrupt(unique);
            return drop(dispatcher.send(WorkerEvent::Interrupted(unique)));
        }
        let attempt = Attempt::default();
        if let Some(wanted) = self.serve(&request, device, attempt, read_at, dispatcher) {
            let parked =
                Parked { bytes: bytes.into(), unique: request.unique, device, attempt, read_at, is_interrupted: false };
            if let Some(again) = dispatcher.ask(wanted, parked) {
                self.serve_parked(again, dispatcher);
            }
        }
    }

    fn serve(
        &self,
        request: &Request<'_>,
        device: usize,
        attempt: Attempt,
        read_at: Instant,
        dispatcher: &RequestDispatcher,
    ) -> Option<Demand> {
        let _serving = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let reply = Reply { device: &self.devices[device], unique: request.unique };
        let call = Call {
            view: &self.view,
            request,
            reply,
            device,
            attempt,
            tally: Tally::default(),
            used: RefCell::default(),
        };
        let wanted = serve(&call);
        tracing::trace!(node = request.node.0, pid = request.pid, operation = ?request.operation, ?wanted, "served");
        for (path, block) in call.used.take() {
            let _ = dispatcher.send(WorkerEvent::Used(path, block));
        }
        if wanted.is_none() {
            self.view.counters.count(device, &request.operation, attempt.rounds > 0, &call.tally, read_at.elapsed());
        }
        wanted
    }
}

/// Returns true for operations that need only the table and the store, while the snapshot serves the path.
fn is_quick(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Read { bytes, .. } => *bytes <= QUICK_BYTES_MAX,
        Operation::Lookup { .. }
        | Operation::Getattr
        | Operation::Statx
        | Operation::Readlink
        | Operation::Open { .. }
        | Operation::Readdir { .. } => true,
        _ => false,
    }
}

/// The largest read that is quick.
const QUICK_BYTES_MAX: u32 = 128 << 10;

/// Starts a thread that may outlive the daemon, because it waits for the kernel.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.into()).stack_size(STACK_BYTES).spawn(work).map(drop)
}

/// Ample for serving a request.
const STACK_BYTES: usize = 256 << 10;

impl Parked {
    /// Returns the request after an answer of the node; `is_known` if the node could help.
    pub(crate) fn answered(mut self, is_known: bool) -> Parked {
        self.attempt.rounds = self.attempt.rounds.saturating_add(1);
        self.attempt.must_use_source |= !is_known;
        self
    }

    /// Returns when the request was read, if it waits for the first time.
    pub fn began(&self) -> Option<Instant> {
        (self.attempt.rounds == 0).then_some(self.read_at)
    }

    /// Returns how long ago the request was read.
    pub(crate) fn age(&self) -> Duration {
        self.read_at.elapsed()
    }

    /// Returns true if a signal is about to end the waiting thread.
    pub(crate) fn thread_is_dying(&self) -> bool {
        Request::decode(&self.bytes).is_ok_and(|request| is_dying(request.pid))
    }

    /// Returns the nodes that the kernel has locked while this request waits.
    pub(crate) fn locks(&self, view: &View) -> Vec<NodeId> {
        Request::decode(&self.bytes).map_or_else(|_| Vec::new(), |request| locked_by(view, &request))
    }

    /// Returns the node that a READ reads from.
    pub(crate) fn reads(&self) -> Option<NodeId> {
        let request = Request::decode(&self.bytes).ok()?;
        matches!(request.operation, Operation::Read { .. }).then_some(request.node)
    }
}
