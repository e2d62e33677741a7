//! The thread that takes locks on the source files, and releases those of holders that are gone.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use headwater_fuse::{Lock, LockKind, NodeId, Reply};
use rustix::fs::fstat;
use rustix::io::Errno;

use super::handover::{LockChange, LockHandover, TakenLock, report};
use super::operations::{apply, find, is_excluded};
use super::owner::{Watch, is_of_description};
use super::queue::{Action, Arrived, Holder, Wanted};
use super::waiter::Waiter;
use crate::worker::Connection;

/// How often the keeper checks that those who have locks still exist.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// How long a lock that another node excludes is tried before it fails: that node may be about to notice that its
/// holder is gone.
const TRY_MAX: Duration = Duration::from_millis(25);
/// The time between two tries.
const TRY_INTERVAL: Duration = Duration::from_millis(2);
/// Interrupts that may arrive before their request.
const INTERRUPTED_MAX: usize = 64;
/// The longest circle of processes that wait for each other which is noticed.
const DEADLOCK_MAX: usize = 10;
/// Beyond so many holders, those that are gone are removed at once.
const HELD_MAX: usize = 4096;

/// The locks of a mount's files.
struct Keeper<'a> {
    connection: &'a Connection,
    /// The socket to the supervisor.
    supervisor: Option<OwnedFd>,
    held: HashMap<Holder, Held>,
    waiting: Vec<Waiting>,
    /// Requests that are tried again: those that may fail only because of a holder that is gone, and those for which no
    /// thread can wait.
    trying: Vec<Wanted>,
    watch: Watch,
    check_at: Option<Instant>,
    try_at: Option<Instant>,
    /// Interrupted requests that have not arrived, perhaps not yet.
    interrupted: VecDeque<u64>,
}

/// A holder that has locks, or had some and still exists.
struct Held {
    /// While it has locks: an opening of the source file for this holder alone.
    file: Option<Arc<OwnedFd>>,
    lock: TakenLock,
}

/// A request for which a thread waits.
struct Waiting {
    wanted: Wanted,
    /// The opening of the source file that the lock will belong to.
    file: Arc<OwnedFd>,
    waiter: Waiter,
    /// The process no longer waits.
    is_answered: bool,
}

/// Takes locks until the file system is unmounted.
pub(crate) fn run(connection: &Connection, handover: LockHandover) {
    let LockHandover { supervisor, watch, taken } = handover;
    let mut keeper = Keeper {
        connection,
        supervisor,
        watch: Watch::new(watch, taken.iter().map(|(lock, _)| &lock.life)),
        check_at: (!taken.is_empty()).then(Instant::now),
        held: taken.into_iter().map(|(lock, file)| (lock.holder, Held { file: Some(file), lock })).collect(),
        waiting: Vec::new(),
        trying: Vec::new(),
        try_at: None,
        interrupted: VecDeque::new(),
    };
    let locks = &connection.view.source_files.locks;
    while let Some(arrived) = locks.next(keeper.check_at.into_iter().chain(keeper.try_at).min()) {
        keeper.step(arrived);
    }
}

impl Keeper<'_> {
    fn step(&mut self, arrived: Arrived) {
        let now = Instant::now();
        self.cancel_interrupted(arrived.interrupted);
        for (unique, result) in arrived.ended {
            self.end(unique, result);
        }
        for node in arrived.forgotten {
            let gone: Vec<Holder> = self.held.keys().filter(|holder| holder.node == node).copied().collect();
            gone.into_iter().for_each(|holder| self.release(holder));
        }
        for wanted in arrived.wanted {
            if let Some(at) = self.interrupted.iter().position(|unique| *unique == wanted.unique) {
                self.interrupted.remove(at);
                self.fail(&wanted, Errno::INTR);
            } else {
                self.serve(wanted);
            }
        }
        if self.check_at.is_some_and(|at| at <= now) {
            self.release_dead(None);
            self.cancel_circles();
            self.waiting.iter().filter(|waiting| waiting.is_answered).for_each(|waiting| waiting.waiter.cancel());
        }
        let is_any_locked = self.held.values().any(|held| held.file.is_some());
        let needs_checks = is_any_locked || self.waiting.iter().any(|waiting| waiting.is_answered);
        self.check_at = needs_checks.then(|| self.check_at.filter(|at| *at > now).unwrap_or(now + CHECK_INTERVAL));
        if self.try_at.is_some_and(|at| at <= now) {
            std::mem::take(&mut self.trying).into_iter().for_each(|wanted| self.serve(wanted));
        }
        self.try_at = (!self.trying.is_empty()).then_some(now + TRY_INTERVAL);
    }

    /// Ends the waiting of interrupted requests.
    fn cancel_interrupted(&mut self, interrupted: Vec<u64>) {
        for unique in interrupted {
            let waits = |wanted: &Wanted| wanted.unique == unique && wanted.action == Action::Wait;
            if let Some(at) = self.waiting.iter().position(|waiting| waits(&waiting.wanted)) {
                self.cancel(at, Errno::INTR);
            } else if let Some(at) = self.trying.iter().position(waits) {
                let wanted = self.trying.swap_remove(at);
                self.fail(&wanted, Errno::INTR);
            } else {
                self.interrupted.push_back(unique);
            }
        }
        let surplus = self.interrupted.len().saturating_sub(INTERRUPTED_MAX);
        self.interrupted.drain(..surplus);
    }

    /// Ends the waiting of processes that wait for each other, which may begin when another lock is returned.
    fn cancel_circles(&mut self) {
        let locked = self.held.iter().filter(|(holder, held)| held.file.is_some() && !holder.is_flock);
        let owners: HashSet<u64> = locked.map(|(holder, _)| holder.owner).collect();
        let is_circle = |waiting: &Waiting| {
            let Waiting { wanted, is_answered, .. } = waiting;
            !is_answered && owners.contains(&wanted.holder.owner) && self.waits_for_itself(wanted)
        };
        if let Some(at) = self.waiting.iter().position(is_circle) {
            self.cancel(at, Errno::DEADLK);
        }
    }

    /// Answers a request that waits. Its thread may have the lock already: the keeper returns that at its end.
    fn cancel(&mut self, at: usize, errno: Errno) {
        let waiting = &mut self.waiting[at];
        waiting.waiter.cancel();
        if !std::mem::replace(&mut waiting.is_answered, true) {
            self.fail(&self.waiting[at].wanted, errno);
        }
    }

    /// Handles the result of a thread that has waited.
    fn end(&mut self, unique: u64, result: Result<(), Errno>) {
        let Some(at) = self.waiting.iter().position(|waiting| waiting.wanted.unique == unique) else { return };
        let Waiting { wanted, file, is_answered, .. } = self.waiting.swap_remove(at);
        let held = self.held.get(&wanted.holder).and_then(|held| held.file.as_ref());
        let is_of_another = held.is_some_and(|held| !Arc::ptr_eq(held, &file));
        match result {
            // Closing the file returns the lock; if the holder has others with this opening, it ends with these.
            _ if is_answered => {}
            // Another thread of the holder has got a lock meanwhile, with another opening of the file.
            Ok(()) if is_of_another => {
                unlock(&file, wanted.holder);
                self.serve(wanted);
            }
            Ok(()) => self.grant(&wanted, file),
            Err(errno) => self.fail(&wanted, errno),
        }
    }

    /// Serves a request, or has it wait.
    fn serve(&mut self, wanted: Wanted) {
        self.release_predecessor(&wanted);
        let held = self.held.get(&wanted.holder).and_then(|held| held.file.as_ref());
        let file = Arc::clone(held.unwrap_or(&wanted.file));
        if wanted.action == Action::Find {
            return self.find(&wanted, &file);
        }
        let mut result = apply(&file, &wanted.lock);
        if is_excluded(result) && self.release_dead(Some(wanted.holder.node)) {
            result = apply(&file, &wanted.lock);
        }
        match result {
            Ok(()) => self.grant(&wanted, file),
            excluded if is_excluded(excluded) && wanted.action == Action::Wait => self.wait(wanted, file),
            excluded if is_excluded(excluded) => {
                let is_from_here = self.others(wanted.holder).next().is_some();
                if is_from_here || wanted.since.elapsed() >= TRY_MAX {
                    self.fail(&wanted, Errno::AGAIN);
                } else {
                    self.trying.push(wanted);
                }
            }
            Err(errno) => self.fail(&wanted, errno),
        }
    }

    fn wait(&mut self, wanted: Wanted, file: Arc<OwnedFd>) {
        if self.waits_for_itself(&wanted) {
            return self.fail(&wanted, Errno::DEADLK);
        }
        let locks = &self.connection.view.source_files.locks;
        match Waiter::start(locks, wanted.unique, Arc::clone(&file), wanted.lock) {
            Ok(waiter) => self.waiting.push(Waiting { wanted, file, waiter, is_answered: false }),
            Err(error) => {
                tracing::debug!(%error, "no thread can wait for a lock, which is tried again and again");
                self.trying.push(wanted);
            }
        }
    }

    /// The kernel's number of a holder may be in use again, and a process may have closed and opened the file since.
    fn release_predecessor(&mut self, wanted: &Wanted) {
        let Some(held) = self.held.get(&wanted.holder) else { return };
        if wanted.lock.kind != LockKind::Unlock && !held.lock.life.is_there(self.watch.descriptions().as_ref()) {
            self.release(wanted.holder);
        }
    }

    fn find(&mut self, wanted: &Wanted, file: &OwnedFd) {
        let mut found = find(file, &wanted.lock);
        if matches!(found, Ok(Some(_))) && self.release_dead(Some(wanted.holder.node)) {
            found = find(file, &wanted.lock);
        }
        let by = |found: &Lock| self.holder_of(wanted.holder, found).map(|holder| self.held[&holder].lock.pid);
        match found {
            Ok(found) => {
                let found = found.map(|found| Lock { pid: by(&found).unwrap_or_default(), ..found });
                self.answer(wanted, |reply| reply.lock(found.as_ref()));
            }
            Err(errno) => self.fail(wanted, errno),
        }
    }

    /// Returns the holder of a lock that excludes this one's, if it is on this node: its own locks don't exclude it.
    fn holder_of(&self, holder: Holder, found: &Lock) -> Option<Holder> {
        let first = Lock { kind: LockKind::Exclusive, end: found.start, ..*found };
        let has_it = |held: &Held| held.file.as_ref().is_some_and(|file| matches!(find(file, &first), Ok(None)));
        self.others(holder).find(|(_, held)| has_it(held)).map(|(other, _)| *other)
    }

    /// Returns the other holders of such locks of the same file on this node.
    fn others(&self, holder: Holder) -> impl Iterator<Item = (&Holder, &Held)> {
        let Holder { node, owner, is_flock } = holder;
        self.held.iter().filter(move |(other, held)| {
            (other.node, other.is_flock) == (node, is_flock) && other.owner != owner && held.file.is_some()
        })
    }

    /// Returns true if a process waits for one that waits for it, directly or by others. As in the kernel, that is a
    /// matter of the locks of processes.
    fn waits_for_itself(&self, wanted: &Wanted) -> bool {
        let mut next = wanted;
        for _ in 0..DEADLOCK_MAX {
            if next.lock.is_flock || is_of_description(next.thread) {
                return false;
            }
            let found = find(&next.file, &next.lock).ok().flatten();
            let Some(holder) = found.and_then(|found| self.holder_of(next.holder, &found)) else { return false };
            if holder.owner == wanted.holder.owner {
                return true;
            }
            let waits = |other: &&Waiting| other.wanted.holder.owner == holder.owner && !other.is_answered;
            let Some(other) = self.waiting.iter().find(waits) else { return false };
            next = &other.wanted;
        }
        false
    }

    fn grant(&mut self, wanted: &Wanted, file: Arc<OwnedFd>) {
        let Wanted { holder, lock, .. } = wanted;
        let is_first = self.held.get(holder).is_none_or(|held| held.file.is_none());
        if lock.kind != LockKind::Unlock {
            if is_first {
                self.note(wanted, Arc::clone(&file));
            }
            self.renew(holder.node, &file);
        } else if lock.is_flock || (lock.start, lock.end) == (0, Lock::END) {
            self.unlock(*holder);
        }
        let is_answered = self.answer(wanted, |reply| reply.ok());
        if is_first && !is_answered {
            self.unlock(*holder);
        }
    }

    /// Notes that a holder has its first lock. One that had locks before is watched already.
    fn note(&mut self, wanted: &Wanted, file: Arc<OwnedFd>) {
        if self.held.len() >= HELD_MAX {
            self.release_dead(None);
        }
        let (watch, lock, holder) = (&mut self.watch, &wanted.lock, wanted.holder);
        let path = self.connection.view.path_of(holder.node);
        let mut begin = || TakenLock { holder, pid: lock.pid, life: watch.begin(lock, wanted.thread, path.as_ref()) };
        let held = self.held.entry(holder).or_insert_with(|| Held { file: None, lock: begin() });
        held.file = Some(Arc::clone(&file));
        let taken = LockChange::Taken(held.lock.clone());
        self.report(&taken, Some(&file));
        self.connection.view.source_files.locks.set_file(holder, Some(file));
    }

    fn report(&self, change: &LockChange, file: Option<&OwnedFd>) {
        if let Some(supervisor) = &self.supervisor
            && let Err(error) = report(supervisor, change, file)
        {
            tracing::debug!(%error, ?change, "the supervisor can't note a change of locks");
        }
    }

    /// Before the lock was free, another node or job may have changed what the kernel keeps. The kernel may have to wait
    /// for a READ or a WRITE of the file, which workers answer, but never for a request about a lock.
    ///
    /// The kernel also gets the length of the file. It learns that from an answer alone where nothing has been dropped
    /// since the request. So while others of this node get locks of the file, a process would read to its former end.
    /// One that appends a record learns in no other way where that ends.
    fn renew(&self, node: NodeId, file: &OwnedFd) {
        let Some(device) = self.connection.devices.first() else { return };
        let mut result = device.invalidate_node(node, 0, 0);
        if let Ok(status) = fstat(file) {
            result = result.and_then(|()| device.lengthen(node, status.st_size as u64));
        }
        if let Err(error) = result {
            tracing::debug!(%error, "the kernel refused to renew what it keeps of a locked file");
        }
    }

    /// Releases the locks of holders that are gone, of all files or of one. Returns true if there were any.
    fn release_dead(&mut self, node: Option<NodeId>) -> bool {
        let there = self.watch.descriptions();
        let of = |holder: &&Holder| node.is_none_or(|node| holder.node == node);
        let dead: Vec<Holder> = self
            .held
            .keys()
            .filter(of)
            .filter(|holder| !self.held[holder].lock.life.is_there(there.as_ref()))
            .copied()
            .collect();
        dead.iter().for_each(|holder| self.release(*holder));
        !dead.is_empty()
    }

    fn release(&mut self, holder: Holder) {
        self.unlock(holder);
        self.held.remove(&holder);
    }

    /// Releases all locks of a holder.
    fn unlock(&mut self, holder: Holder) {
        let Some(file) = self.held.get_mut(&holder).and_then(|held| held.file.take()) else { return };
        self.connection.view.source_files.locks.set_file(holder, None);
        // A worker may have the file, too, so that closing it would release nothing yet.
        unlock(&file, holder);
        self.report(&LockChange::Returned(holder), None);
    }

    fn fail(&self, wanted: &Wanted, errno: Errno) {
        self.answer(wanted, |reply| reply.error(errno.raw_os_error()));
    }

    /// Returns false if the kernel no longer waits. Once there is a successor, that one answers.
    fn answer(&self, wanted: &Wanted, write: impl FnOnce(&Reply<'_>) -> io::Result<()>) -> bool {
        let _serving = self.connection.gate.read().unwrap_or_else(PoisonError::into_inner);
        write(&Reply { device: &self.connection.devices[wanted.device], unique: wanted.unique }).is_ok()
    }
}

/// Returns all locks of an opening.
fn unlock(file: &OwnedFd, holder: Holder) {
    let Holder { owner, is_flock, .. } = holder;
    let _ = apply(file, &Lock { owner, kind: LockKind::Unlock, start: 0, end: Lock::END, pid: 0, is_flock });
}
