//! The processes that run, and what became of those that don't.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpgid, getpgrp, kill_process, wait, waitpgid};

/// Whose statuses are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReapScope {
    /// Of this process's group, in which a zygote isn't. Processes that have left it are seen later.
    Group,
    /// All, when there is no zygote any more.
    All,
}

/// Processes of one program.
#[derive(Debug, Default)]
pub struct Processes {
    running: HashMap<Pid, Instant>,
    /// How long those lived that have ended.
    pub lifetimes: Vec<Duration>,
    /// The exit status of the first that failed.
    pub failure: Option<u8>,
}

impl Processes {
    /// Counts one that was started by a call of this time.
    pub fn add(&mut self, pid: Pid, called: Instant) {
        self.running.insert(pid, called);
    }

    /// How many run, as far as is known.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Notes which have ended.
    pub fn reap(&mut self, scope: ReapScope) {
        let group = getpgrp();
        loop {
            let ended = match scope {
                ReapScope::Group => waitpgid(group, WaitOptions::NOHANG),
                ReapScope::All => wait(WaitOptions::NOHANG),
            };
            let Ok(Some((pid, status))) = ended else { return };
            if let Some(called) = self.running.remove(&pid) {
                self.lifetimes.push(called.elapsed());
                self.failure = self.failure.or(failure(status));
            }
        }
    }

    /// All were killed, and somebody has taken their statuses.
    pub fn killed(&mut self) {
        if !self.running.is_empty() {
            self.failure.get_or_insert((128 + Signal::KILL.as_raw()) as u8);
        }
        self.lifetimes.extend(self.running.drain().map(|(_, called)| called.elapsed()));
    }

    /// Sends a signal to each.
    pub fn signal(&self, signal: Signal) {
        for &pid in self.running.keys() {
            // Its number is its own until its status is taken.
            let _ = kill_process(pid, signal);
        }
    }

    /// Sends what the kernel has sent to this process's group to those that have left it.
    pub fn signal_others(&self, signal: Signal) {
        let group = getpgrp();
        for &pid in self.running.keys().filter(|&&pid| getpgid(Some(pid)).is_ok_and(|own| own != group)) {
            let _ = kill_process(pid, signal);
        }
    }
}

fn failure(status: WaitStatus) -> Option<u8> {
    let code = status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal));
    code.filter(|&code| code != 0).map(|code| code as u8)
}
