//! Two processes, so that the end of either by any signal leaves no process of the program behind.
//!
//! A spawner can't set a death signal in processes that run the program from their first instruction on. So the command
//! is a *guard* with a child, the *worker*, which spawns. The kernel notifies the worker of the guard's death, and the
//! worker ends its processes. When the worker dies, its processes become children of the guard, which ends them. The
//! guard forwards signals, and ends with the worker's exit status.

use std::collections::BTreeSet;
use std::fs;

use anyhow::Result;
use libc::c_int;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_child_subreaper, set_parent_process_death_signal, wait,
};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Cause;

use crate::message::log;
use crate::process::{self, BlockedSignals, Side};
use crate::session::signals;
use crate::status::Ending;

/// Signals that users and batch systems send to a job. The terminal sends stop signals to the whole group.
pub const FORWARDED: [c_int; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// The worker's handle of the guard.
#[derive(Clone, Copy, Debug)]
pub struct Guard(Option<Pid>);

impl Guard {
    /// Returns whether the guard lives. Its death is delivered as SIGCHLD, which is never ignored.
    pub fn is_alive(self) -> bool {
        self.0.is_none() || getppid() == self.0
    }
}

/// Does the work in a guarded process; returns its exit status. If fork fails, this process does the work. Signals
/// stay blocked until the work handles them: an earlier one would end this process.
///
/// Call it before any thread is started.
pub fn guarded(work: impl FnOnce(Guard, BlockedSignals) -> Result<u8>) -> Result<u8> {
    let guard = Guard(Some(getpid()));
    let blocked = process::block_signals(&FORWARDED);
    match process::fork() {
        Ok(Side::Child) => {
            let _ = set_parent_process_death_signal(Some(Signal::CHILD));
            // Orphans of the program become children of this process, which can end them.
            let _ = set_child_subreaper(Some(getpid()));
            // The guard may have died before the death signal was set.
            if guard.is_alive() { work(guard, blocked) } else { Ok(crate::status::FAILURE) }
        }
        Ok(Side::Parent(worker)) => Ok(guard_worker(worker, blocked)),
        Err(_) => work(Guard(None), blocked),
    }
}

/// Kills all processes that this one has started, with their descendants: orphans become children of this one.
pub fn end_all() {
    loop {
        let children = children();
        let killed = children.iter().filter(|&&child| kill_process(child, Signal::KILL).is_ok()).count();
        // Processes of other users can't be killed, and are not waited for.
        if killed == 0 || !reap(children.len()) {
            return;
        }
    }
}

/// Reaps at most `count` children. Returns false if none is left.
fn reap(count: usize) -> bool {
    for _ in 0..count {
        match wait(WaitOptions::empty()) {
            Err(Errno::CHILD) => return false,
            _ => continue,
        }
    }
    true
}

/// Returns the children of this process's threads. An orphan may be any thread's child.
fn children() -> Vec<Pid> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    let pids = |list: String| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>();
    lists.flat_map(pids).filter_map(Pid::from_raw).collect()
}

/// Runs the guard until the worker has ended. Returns its exit status, or ends by the signal that ended the processes if
/// it was received here.
fn guard_worker(worker: Pid, blocked: BlockedSignals) -> u8 {
    let _ = set_child_subreaper(Some(getpid()));
    let watched = signals::not_ignored(&FORWARDED).chain([SIGCHLD]).collect::<Vec<_>>();
    let signals = SignalsInfo::<WithOrigin>::new(&watched);
    drop(blocked);
    let Ok(mut signals) = signals else {
        return status_of(worker, WaitOptions::empty()).unwrap_or(crate::status::FAILURE);
    };
    let passing = signals.handle();
    // The worker may have ended before SIGCHLD was watched.
    if let Some(status) = status_of(worker, WaitOptions::NOHANG) {
        return status;
    }
    let mut received = BTreeSet::new();
    for origin in signals.forever() {
        if origin.signal == SIGCHLD {
            if let Some(status) = status_of(worker, WaitOptions::NOHANG) {
                passing.close();
                let signal = received.into_iter().find(|&signal| Ending::by(signal).code == status);
                return signal.map_or(status, |signal| Ending::by(signal).repeat());
            }
            continue;
        }
        received.insert(origin.signal);
        // The kernel has sent its signals to the worker, too.
        if let Some(signal) = Signal::from_named_raw(origin.signal).filter(|_| !matches!(origin.cause, Cause::Kernel)) {
            let _ = kill_process(worker, signal);
        }
    }
    crate::status::FAILURE
}

/// Returns the worker's exit status, once it has ended. Reaps orphans of the program.
fn status_of(worker: Pid, how: WaitOptions) -> Option<u8> {
    loop {
        match wait(how) {
            Ok(Some((pid, status))) if pid == worker => {
                if let Some(code) = status.exit_status() {
                    return Some(code as u8);
                }
                let signal = status.terminating_signal().unwrap_or(0);
                log(format_args!("signal {signal} ended the worker of headwater spawn. Its processes are killed too"));
                end_all();
                return Some((128 + signal) as u8);
            }
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return None,
            Err(_) => return Some(crate::status::FAILURE),
        }
    }
}
