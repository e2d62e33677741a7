//! The threads that serve FUSE requests, from the device to the answer.

use std::cell::RefCell;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use headwater_abi::Path;
use headwater_fuse::{Device, NodeId, Operation, Reply, Request};
use rustix::io::Errno;

use crate::call::{Call, Demand};
use crate::caller::is_dying;
use crate::serve::serve;
use crate::state::attempt::Attempt;
use crate::state::counters::Tally;
use crate::view::View;

/// A mounted tree and the descriptors of its connection.
pub(crate) struct Connection {
    /// The tree.
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

/// Receives what workers can't serve from the table.
pub(crate) trait DemandSink {
    /// Parks a request until `wanted` is here. Returns the request if it can't be parked: then it must use the source
    /// file.
    fn ask(&self, wanted: Demand, parked: Parked) -> Option<Parked>;

    /// Handles a signal of the thread that waits for this request; ignored if it is not parked.
    fn interrupt(&self, unique: u64);

    /// Reports to the node that marked content was read: all of a file, or a block.
    fn used(&self, path: Path, block: Option<u32>);
}

impl Connection {
    /// Reads and serves requests of one descriptor until the file system is unmounted.
    pub(crate) fn work(&self, device: usize, demands: &dyn DemandSink) {
        let mut buffer = vec![0; Device::request_bytes_max(self.view.negotiated.transfer_bytes_max)];
        loop {
            match self.devices[device].read(&mut buffer) {
                Ok(0) => return,
                Ok(bytes) => self.take(&buffer[..bytes], device, demands),
                Err(error) => {
                    tracing::error!(%error, "/dev/fuse can't be read; the mounted file system may hang");
                    return;
                }
            }
        }
    }

    /// Serves requests whose answer has arrived, until the channel closes.
    pub(crate) fn complete(&self, ready: &Receiver<Parked>, demands: &dyn DemandSink) {
        for parked in ready {
            self.serve_parked(parked, demands);
        }
    }

    /// Serves a request again.
    pub(crate) fn serve_parked(&self, mut parked: Parked, demands: &dyn DemandSink) {
        loop {
            let Ok(request) = Request::decode(&parked.bytes) else { return };
            let Parked { device, attempt, read_at, .. } = parked;
            let Some(wanted) = self.serve(&request, device, attempt, read_at, demands) else { return };
            match demands.ask(wanted, parked) {
                Some(again) => parked = again,
                None => return,
            }
        }
    }

    /// Serves a request again without blocking. If it has to wait, returns it with what it waits for.
    pub(crate) fn serve_at_once(&self, parked: Parked, demands: &dyn DemandSink) -> Option<(Demand, Parked)> {
        let request = Request::decode(&parked.bytes).ok()?;
        if !is_quick(&request.operation) {
            return Some((Demand::BlockingThread, parked));
        }
        let attempt = Attempt { at_once: true, ..parked.attempt };
        let wanted = self.serve(&request, parked.device, attempt, parked.read_at, demands)?;
        Some((wanted, parked))
    }

    /// Answers EINTR to a parked request whose thread is dying.
    pub(crate) fn give_up(&self, parked: &Parked) {
        let reply = Reply { device: &self.devices[parked.device], unique: parked.unique };
        let _ = reply.error(Errno::INTR.raw_os_error());
    }

    fn take(&self, bytes: &[u8], device: usize, demands: &dyn DemandSink) {
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
            return demands.interrupt(unique);
        }
        let attempt = Attempt::default();
        if let Some(wanted) = self.serve(&request, device, attempt, read_at, demands) {
            let parked =
                Parked { bytes: bytes.into(), unique: request.unique, device, attempt, read_at, is_interrupted: false };
            if let Some(again) = demands.ask(wanted, parked) {
                self.serve_parked(again, demands);
            }
        }
    }

    fn serve(
        &self,
        request: &Request<'_>,
        device: usize,
        attempt: Attempt,
        read_at: Instant,
        demands: &dyn DemandSink,
    ) -> Option<Demand> {
        let _serving = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let reply = Reply { device: &self.devices[device], unique: request.unique };
        let call =
            Call { view: &self.view, request, reply, attempt, tally: Tally::default(), used: RefCell::default() };
        let wanted = serve(&call);
        tracing::trace!(node = request.node.0, pid = request.pid, operation = ?request.operation, ?wanted, "served");
        for (path, block) in call.used.take() {
            demands.used(path, block);
        }
        if wanted.is_none() {
            self.view.counters.count(device, &request.operation, attempt, &call.tally, read_at.elapsed());
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

    /// Returns how long ago the request was read.
    pub(crate) fn age(&self) -> Duration {
        self.read_at.elapsed()
    }

    /// Returns true if a signal is about to end the waiting thread.
    pub(crate) fn thread_is_dying(&self) -> bool {
        Request::decode(&self.bytes).is_ok_and(|request| is_dying(request.pid))
    }

    /// Returns the node that a READ reads from.
    pub(crate) fn reads(&self) -> Option<NodeId> {
        let request = Request::decode(&self.bytes).ok()?;
        matches!(request.operation, Operation::Read { .. }).then_some(request.node)
    }
}
