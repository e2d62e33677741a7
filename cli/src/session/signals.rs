//! Signals as events, so that each is forwarded exactly once.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use libc::c_int;
use libc::{SIGKILL, SIGSTOP};
use rustix::process::Pid;
use signal_hook::consts::{
    SIGBUS, SIGCHLD, SIGCONT, SIGFPE, SIGHUP, SIGILL, SIGINT, SIGPIPE, SIGQUIT, SIGSEGV, SIGSYS, SIGTERM, SIGTRAP,
    SIGTSTP, SIGTTIN, SIGTTOU, SIGUSR1, SIGUSR2, SIGWINCH, SIGXFSZ,
};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};

use crate::session::events::{Event, Signal};

const USUAL: [c_int; 9] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH];

/// Sends each usual signal, and `SIGCHLD`, as an event from now on. Signals that were ignored when this process started
/// stay ignored, here and in its children: `nohup` relies on that.
pub fn watch(events: Sender<Event>) -> Result<()> {
    watch_for(&USUAL, move |signal| events.send(Event::Signal(signal)).is_ok())
}

/// The same with all signals that this process forwards to its program: batch systems warn a job by any of them.
pub fn watch_all(events: Sender<Event>) -> Result<()> {
    let is_own = |signal: &c_int| UNCATCHABLE.contains(signal) || OWN.contains(signal) || RESERVED.contains(signal);
    let all: Vec<c_int> = SIGNALS.filter(|signal| !is_own(signal)).collect();
    watch_for(&all, move |signal| events.send(Event::Signal(signal)).is_ok())
}

/// The same with these signals. Calls `handle` with each, until it returns false.
pub fn watch_for(signals: &[c_int], mut handle: impl FnMut(Signal) -> bool + Send + 'static) -> Result<()> {
    let watched: Vec<c_int> = not_ignored(signals).chain([SIGCHLD]).collect();
    let mut signals = SignalsInfo::<WithOrigin>::new(watched).context("signals can't be watched")?;
    let watching = move || {
        for origin in signals.forever() {
            let signal = Signal {
                number: origin.signal,
                from_kernel: matches!(origin.cause, Cause::Kernel),
                at: Instant::now(),
            };
            if !handle(signal) {
                return;
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(watching).context("no thread can be started")?;
    Ok(())
}

/// Signals that a process can't catch, and those for its own faults.
const UNCATCHABLE: [c_int; 5] = [SIGKILL, SIGSTOP, SIGILL, SIGFPE, SIGSEGV];
/// Signals by which the kernel tells this process of its own calls, faults, limits and terminal, and which it handles.
const OWN: [c_int; 8] = [SIGCHLD, SIGPIPE, SIGXFSZ, SIGBUS, SIGSYS, SIGTRAP, SIGTTIN, SIGTTOU];
/// The C library's own.
const RESERVED: std::ops::Range<c_int> = 32..34;
const SIGNALS: std::ops::RangeInclusive<c_int> = 1..=64;

/// A signal that has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    /// Its number.
    pub number: c_int,
    /// The kernel sent it.
    pub from_kernel: bool,
    /// The process that sent it, if one did.
    pub sender: Option<Pid>,
}

/// Receives all signals to forward to another process, except those that this one ignores.
pub struct SignalForwarder(SignalDelivery<UnixStream, WithOrigin>);

impl SignalForwarder {
    /// Catches the signals from now on.
    pub fn begin() -> std::io::Result<SignalForwarder> {
        let is_forwarded =
            |signal: &c_int| !UNCATCHABLE.contains(signal) && !RESERVED.contains(signal) && *signal != SIGCHLD;
        let all: Vec<c_int> = SIGNALS.filter(is_forwarded).collect();
        let (read, write) = UnixStream::pair()?;
        Ok(SignalForwarder(SignalDelivery::with_pipe(read, write, WithOrigin::default(), not_ignored(&all))?))
    }

    /// Returns a descriptor that is readable when signals have arrived.
    pub fn readable(&self) -> BorrowedFd<'_> {
        self.0.get_read().as_fd()
    }

    /// Returns the signals that have arrived.
    pub fn pending(&mut self) -> Vec<Pending> {
        let pending = |origin: Origin| Pending {
            number: origin.signal,
            from_kernel: matches!(origin.cause, Cause::Kernel),
            sender: origin.process.and_then(|process| Pid::from_raw(process.pid)),
        };
        self.0.pending().map(pending).collect()
    }

    /// Applies the default action of signals that have arrived.
    pub fn end(&mut self) {
        for signal in self.pending() {
            let _ = signal_hook::low_level::emulate_default_handler(signal.number);
        }
    }
}

/// Returns the signals that this process does not ignore.
pub fn not_ignored(signals: &[c_int]) -> impl Iterator<Item = c_int> {
    let ignored = ignored_signals();
    signals.iter().copied().filter(move |signal| ignored >> (signal - 1) & 1 == 0)
}

/// Stops this process until it is continued.
pub fn stop_here() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
}

/// Returns the mask of ignored signals, bit n-1 for signal n; 0 if /proc is missing.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
