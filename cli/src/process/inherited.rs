//! What this process has from its starter and leaves to programs: standard descriptors that are closed, signals that are
//! ignored, and the mask of blocked ones. Rust's runtime and its commands change each of them.

use std::mem::zeroed;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use libc::{SIG_IGN, SIGCHLD, SIGPIPE, SIGXFSZ, c_int, sigset_t};
use rustix::fs::{OFlags, fcntl_getfl, fstat, major, minor};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::stdio::{stderr, stdin, stdout};

/// Signals for which this process, or a command of Rust's, sets another action. All others stay ignored.
const CHANGED: [c_int; 3] = [SIGPIPE, SIGCHLD, SIGXFSZ];
const SIGNALS: std::ops::RangeInclusive<c_int> = 1..=64;

/// Those of [`CHANGED`] that were ignored, and the signals that were blocked: bit n-1 for signal n.
static IGNORED: AtomicU64 = AtomicU64::new(0);
static BLOCKED: AtomicU64 = AtomicU64::new(0);

/// Runs before Rust's runtime does.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

extern "C" fn note() {
    hold_closed();
    note_signals();
}

/// Opens `/dev/null` for each standard descriptor that is closed, in the direction that it is not for. Using it fails as
/// if it were closed, in all processes that inherit it. Rust's runtime would open it for reading and writing: what a
/// program writes there would be lost, and no write would fail.
fn hold_closed() {
    for number in 0..=2 {
        let direction = if number == 0 { libc::O_WRONLY } else { libc::O_RDONLY };
        // SAFETY: both read nothing but their arguments; the lowest number that is free is this one.
        unsafe {
            if libc::fcntl(number, libc::F_GETFD) == -1 {
                libc::open(c"/dev/null".as_ptr(), direction);
            }
        }
    }
}

/// Remembers what is ignored and blocked. This process itself waits for children and forwards signals, so it blocks
/// none, and has the kernel keep children's statuses.
fn note_signals() {
    // SAFETY: the structures are this function's own, and filled before they are read; a default action and a mask run
    // no code of this process.
    unsafe {
        for number in CHANGED {
            let mut action = zeroed::<libc::sigaction>();
            if libc::sigaction(number, ptr::null(), &raw mut action) == 0 && action.sa_sigaction == SIG_IGN {
                IGNORED.fetch_or(bit(number), Relaxed);
            }
        }
        if IGNORED.load(Relaxed) & bit(SIGCHLD) != 0 {
            libc::signal(SIGCHLD, libc::SIG_DFL);
        }
        let (mut none, mut blocked) = (zeroed::<sigset_t>(), zeroed::<sigset_t>());
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, &raw mut blocked);
        for number in SIGNALS.filter(|&number| libc::sigismember(&raw const blocked, number) == 1) {
            BLOCKED.fetch_or(bit(number), Relaxed);
        }
    }
}

fn bit(number: c_int) -> u64 {
    1 << (number - 1)
}

/// Returns the signals of [`CHANGED`] that this process's starter ignored, and those that it blocked: bit n-1 for signal n.
pub fn signals() -> (u64, u64) {
    (IGNORED.load(Relaxed), BLOCKED.load(Relaxed))
}

/// Has the command's program ignore and block the signals that this process's starter ignored and blocked.
pub fn pass_on(command: &mut Command) {
    let (ignored, blocked) = signals();
    if (ignored, blocked) == (0, 0) {
        return;
    }
    // SAFETY: between fork and exec it makes only calls that signal handlers may make.
    unsafe {
        command.pre_exec(move || {
            for number in CHANGED.into_iter().filter(|&number| ignored & bit(number) != 0) {
                libc::signal(number, SIG_IGN);
            }
            let mut mask = zeroed::<sigset_t>();
            libc::sigemptyset(&raw mut mask);
            for number in SIGNALS.filter(|&number| blocked & bit(number) != 0) {
                libc::sigaddset(&raw mut mask, number);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, ptr::null_mut());
            Ok(())
        })
    };
}

/// Closes the standard descriptors that were closed when this process or one of its ancestors began, once this process
/// executes a program.
pub fn leave_closed() {
    for (fd, wrong) in [(stdin(), OFlags::WRONLY), (stdout(), OFlags::RDONLY), (stderr(), OFlags::RDONLY)] {
        // The device's numbers are the same on every system.
        let is_null = || fstat(fd).is_ok_and(|stat| (major(stat.st_rdev), minor(stat.st_rdev)) == (1, 3));
        if fcntl_getfl(fd).is_ok_and(|flags| flags & OFlags::ACCMODE == wrong) && is_null() {
            let _ = fcntl_setfd(fd, FdFlags::CLOEXEC);
        }
    }
}
