//! Has the tracer and the program run on one processor, while the program has little that could run at the same time.
//!
//! A stop then costs some microseconds; between two processors of a virtual machine it may cost a hundred. Before the
//! program can see or change on which processors it may run, it has those again that it had.

use std::fs;

use libc::{c_long, cpu_set_t, pid_t};

/// With more threads than these, of all processes, they may run at the same time: a shell and the program for which it
/// waits still do not.
const THREADS_MAX: usize = 2;

/// The processors of the program.
pub(crate) struct Affinity {
    /// What the program had; `None` if it is not restricted.
    before: Option<cpu_set_t>,
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
        Affinity { before: Some(before) }
    }

    /// Restricts nothing.
    pub(crate) fn none() -> Affinity {
        Affinity { before: None }
    }

    /// Returns whether the program runs only while the tracer does not.
    pub(crate) fn is_restricted(&self) -> bool {
        self.before.is_some()
    }

    /// Returns whether programs that make this call see or change their processors.
    pub(crate) fn is_seen_by(number: c_long) -> bool {
        number == libc::SYS_sched_getaffinity || number == libc::SYS_sched_setaffinity
    }

    /// Lifts the restriction if there are now more threads than can profit from it.
    pub(crate) fn note_threads(&mut self, threads: impl ExactSizeIterator<Item = pid_t>) {
        if threads.len() > THREADS_MAX {
            self.lift(threads);
        }
    }

    /// Lifts the restriction of these threads, and for good.
    pub(crate) fn lift(&mut self, threads: impl Iterator<Item = pid_t>) {
        if let Some(before) = self.before.take() {
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

/// Returns the names of a directory that are numbers.
fn numbers(directory: &str) -> Vec<pid_t> {
    let names = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).collect()
}

fn set(thread: pid_t, processors: &cpu_set_t) {
    // SAFETY: the kernel reads the set alone. A thread that has ended has no processors.
    unsafe { libc::sched_setaffinity(thread, size_of::<cpu_set_t>(), processors) };
}
