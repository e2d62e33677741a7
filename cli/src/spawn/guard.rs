//! Two processes, so that the end of either by any signal leaves no process of the program behind.
//!
//! Who spawns can't have strangers' processes die with it: they are the program's from their first instruction on. So
//! the command is a *guard* with a child, the *worker*, which spawns. The worker is told by the kernel when the guard
//! dies, and ends its processes. When the worker dies, its processes become the guard's, which ends them. The guard
//! passes signals on, and takes over the worker's exit status.

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

/// What a user or a batch system sends to a job. What stops and continues is the terminal's, for all of its group.
pub const FORWARDED: [c_int; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// The guard, to its worker.
#[derive(Clone, Copy, Debug)]
pub struct Guard(Option<Pid>);

impl Guard {
    /// False once it is dead. Its death comes as a SIGCHLD, the one signal that is always looked at.
    pub fn is_alive(self) -> bool {
        self.0.is_none() || getppid() == self.0
    }
}

/// Does the work in a guarded process; gives its exit status. Without a second process it is done in this one. Signals
/// are held until the work lets them go, when it listens to them: one that comes sooner would end this process.
///
/// Call it before any thread is started.
pub fn guarded(work: impl FnOnce(Guard, BlockedSignals) -> Result<u8>) -> Result<u8> {
    let guard = Guard(Some(getpid()));
    let blocked = process::block_signals(&FORWARDED);
    match process::fork() {
        Ok(Side::Child) => {
            let _ = set_parent_process_death_signal(Some(Signal::CHILD));
            // What processes leave behind comes here, where it can be ended.
            let _ = set_child_subreaper(Some(getpid()));
            // Too late for the signal, if the guard has died before.
            if guard.is_alive() { work(guard, blocked) } else { Ok(crate::status::FAILURE) }
        }
        Ok(Side::Parent(worker)) => Ok(guard_worker(worker, blocked)),
        Err(_) => work(Guard(None), blocked),
    }
}

/// Ends everything that this process has started, with all that came of it: orphans come here.
pub fn end_all() {
    loop {
        let children = children();
        let killed = children.iter().filter(|&&child| kill_process(child, Signal::KILL).is_ok()).count();
        // Those of other users can't be killed, and aren't waited for.
        if killed == 0 || !reap(children.len()) {
            return;
        }
    }
}

/// Takes the statuses of so many children, or of all that there are. False if there is none left.
fn reap(count: usize) -> bool {
    for _ in 0..count {
        match wait(WaitOptions::empty()) {
            Err(Errno::CHILD) => return false,
            _ => continue,
        }
    }
    true
}

/// The children of this process's threads. An orphan may have become that of any of them.
fn children() -> Vec<Pid> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    let pids = |list: String| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>();
    lists.flat_map(pids).filter_map(Pid::from_raw).collect()
}

/// The guard's part: until the worker has ended.
fn guard_worker(worker: Pid, blocked: BlockedSignals) -> u8 {
    let _ = set_child_subreaper(Some(getpid()));
    let watched = signals::not_ignored(&FORWARDED).chain([SIGCHLD]).collect::<Vec<_>>();
    let signals = SignalsInfo::<WithOrigin>::new(&watched);
    drop(blocked);
    let Ok(mut signals) = signals else {
        return status_of(worker, WaitOptions::empty()).unwrap_or(crate::status::FAILURE);
    };
    let passing = signals.handle();
    // It may have ended before anybody looked.
    if let Some(status) = status_of(worker, WaitOptions::NOHANG) {
        return status;
    }
    for origin in signals.forever() {
        if origin.signal == SIGCHLD {
            if let Some(status) = status_of(worker, WaitOptions::NOHANG) {
                passing.close();
                return status;
            }
        } else if !matches!(origin.cause, Cause::Kernel) {
            // The kernel's came to the worker too.
            if let Some(signal) = Signal::from_named_raw(origin.signal) {
                let _ = kill_process(worker, signal);
            }
        }
    }
    crate::status::FAILURE
}

/// The worker's exit status, once it has ended. Orphans of the program that have ended are forgotten.
fn status_of(worker: Pid, how: WaitOptions) -> Option<u8> {
    loop {
        match wait(how) {
            Ok(Some((pid, status))) if pid == worker => {
                if let Some(code) = status.exit_status() {
                    return Some(code as u8);
                }
                let signal = status.terminating_signal().unwrap_or(0);
                log(format_args!("signal {signal} ended the part that spawns. Its processes are ended too"));
                end_all();
                return Some((128 + signal) as u8);
            }
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return None,
            Err(_) => return Some(crate::status::FAILURE),
        }
    }
}
