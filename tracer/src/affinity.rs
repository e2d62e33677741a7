//! Has the tracer and the program run on one processor, while the program has little that could run at the same time.
//!
//! A stop then costs some microseconds; between two processors of a virtual machine it may cost a hundred. Many programs
//! have threads that wait for each other, or stop more often than they compute. So the restriction ends when threads
//! have computed at the same time for a while. Before the program can see or change on which processors it may run, it
//! has those again that it had; where it only asks, for the length of the call.

use std::fs;
use std::ptr;

use libc::{c_long, cpu_set_t, pid_t};

/// How often threads are examined, while there are several, in microseconds.
const PERIOD_US: i64 = 10_000;
/// A program that stops more often in that time would gain less by a second processor than it would lose.
const STOPS_MAX: u64 = 150;
/// How often in succession threads must be found computing.
const TIMES: u32 = 2;

/// The processors of the program.
pub(crate) struct Affinity {
    /// What the program had; `None` if it is not restricted.
    before: Option<cpu_set_t>,
    /// What it has while it is restricted.
    one: Option<cpu_set_t>,
    /// Threads are examined at intervals.
    is_watched: bool,
    /// Stops since the last time.
    stops: u64,
    /// How often in succession threads have been found computing.
    found: u32,
}

impl Affinity {
    /// Restricts this process and the program to the processor on which this process runs.
    pub(crate) fn restrict(program: pid_t) -> Affinity {
        // SAFETY: a set of processors is valid when all of it is zero, and the kernel writes to it alone.
        let before = unsafe {
            let mut set = std::mem::zeroed::<cpu_set_t>();
            (libc::sched_getaffinity(program, size_of::<cpu_set_t>(), &raw mut set) == 0).then_some(set)
        };
        // SAFETY: it only returns a number.
        let here = usize::try_from(unsafe { libc::sched_getcpu() });
        let (Some(before), Ok(here)) = (before, here) else { return Affinity::none() };
        // SAFETY: as above; the number is of a processor, which has a place in the set or is left out.
        let one = unsafe {
            let mut set = std::mem::zeroed::<cpu_set_t>();
            if here >= 8 * size_of::<cpu_set_t>() || !libc::CPU_ISSET(here, &before) {
                return Affinity::none();
            }
            libc::CPU_SET(here, &mut set);
            set
        };
        set(0, &one);
        set(program, &one);
        Affinity { before: Some(before), one: Some(one), is_watched: false, stops: 0, found: 0 }
    }

    /// Restricts nothing.
    pub(crate) fn none() -> Affinity {
        Affinity { before: None, one: None, is_watched: false, stops: 0, found: 0 }
    }

    /// Returns whether the program runs only while the tracer does not.
    pub(crate) fn is_restricted(&self) -> bool {
        self.before.is_some()
    }

    /// Returns whether programs that make this call change their processors.
    pub(crate) fn is_changed_by(number: c_long) -> bool {
        number == libc::SYS_sched_setaffinity
    }

    /// Notes a stop.
    pub(crate) fn note_stop(&mut self) {
        self.stops += 1;
    }

    /// Notes that there are several threads: a SIGALRM then interrupts the tracer at intervals, for [`Affinity::examine`].
    pub(crate) fn note_threads(&mut self) {
        if self.before.is_some() && !self.is_watched {
            self.is_watched = true;
            set_timer(PERIOD_US);
        }
    }

    /// Lifts the restriction if several of these threads have computed at the same time for a while.
    pub(crate) fn examine(&mut self, threads: impl Iterator<Item = pid_t> + Clone) {
        let is_computing = self.stops <= STOPS_MAX && threads.clone().filter(|&thread| runs(thread)).nth(1).is_some();
        self.stops = 0;
        self.found = if is_computing { self.found + 1 } else { 0 };
        if self.found >= TIMES {
            self.lift(threads);
        }
    }

    /// Restricts a thread again, which [`Affinity::release`] has released.
    pub(crate) fn restrict_again(&self, thread: pid_t) {
        if let (Some(_), Some(one)) = (&self.before, &self.one) {
            set(thread, one);
        }
    }

    /// Lifts the restriction of one thread.
    pub(crate) fn release(&self, thread: pid_t) {
        if let Some(before) = &self.before {
            set(thread, before);
        }
    }

    /// Lifts the restriction of these threads, and for good.
    pub(crate) fn lift(&mut self, threads: impl Iterator<Item = pid_t>) {
        if let Some(before) = self.before.take() {
            if self.is_watched {
                set_timer(0);
            }
            set(0, &before);
            for thread in threads {
                set(thread, &before);
                // A child or thread whose beginning has not been reported yet is restricted, too.
                for own in numbers(&format!("/proc/{thread}/task")) {
                    set(own, &before);
                    let children = fs::read_to_string(format!("/proc/{thread}/task/{own}/children"));
                    for child in children.unwrap_or_default().split_whitespace().filter_map(|it| it.parse().ok()) {
                        set(child, &before);
                    }
                }
            }
        }
    }
}

/// Returns whether a thread runs or could run.
fn runs(thread: pid_t) -> bool {
    let stat = fs::read(format!("/proc/{thread}/stat")).unwrap_or_default();
    let at = stat.windows(2).rposition(|window| window == b") ");
    at.and_then(|at| stat.get(at + 2)) == Some(&b'R')
}

/// Has a SIGALRM come at intervals; 0: no more.
fn set_timer(period_us: i64) {
    let period = libc::timeval { tv_sec: 0, tv_usec: period_us };
    let timer = libc::itimerval { it_interval: period, it_value: period };
    // SAFETY: the kernel reads the structure alone.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, ptr::null_mut()) };
}

/// Returns the names of a directory that are numbers.
fn numbers(directory: &str) -> Vec<pid_t> {
    let names = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).collect()
}

fn set(thread: pid_t, processors: &cpu_set_t) {
    // SAFETY: the kernel reads the set alone. A thread that has ended has no processors.
    unsafe { libc::sched_setaffinity(thread, size_of::<cpu_set_t>(), processors) };
}
