//! Running processes, and the outcome of ended ones.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpgid, getpgrp, kill_process, wait, waitpgid};

/// Which children are reaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReapScope {
    /// Those of this process's group, which excludes a zygote. Processes that have left the group are reaped later.
    Group,
    /// All, after the zygote's end.
    All,
}

/// Processes of one program.
#[derive(Debug, Default)]
pub struct Processes {
    running: HashMap<Pid, Instant>,
    /// The lifetimes of ended processes.
    pub lifetimes: Vec<Duration>,
    /// The exit status of the first failed process.
    pub failure: Option<u8>,
}

impl Processes {
    /// Adds a process that was started by a call at this time.
    pub fn add(&mut self, pid: Pid, called: Instant) {
        self.running.insert(pid, called);
    }

    /// Returns the number of processes that have not been reaped.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Reaps ended processes.
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

    /// Notes that all processes were killed and reaped.
    pub fn killed(&mut self) {
        if !self.running.is_empty() {
            self.failure.get_or_insert((128 + Signal::KILL.as_raw()) as u8);
        }
        self.lifetimes.extend(self.running.drain().map(|(_, called)| called.elapsed()));
    }

    /// Sends a signal to each process.
    pub fn signal(&self, signal: Signal) {
        for &pid in self.running.keys() {
            // A PID is not reused before the process is reaped.
            let _ = kill_process(pid, signal);
        }
    }

    /// Sends a signal of the kernel to processes that have left this process's group.
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
