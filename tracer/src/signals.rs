//! Signals of the tracer and of its caller.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use libc::{c_int, c_void, pid_t, siginfo_t};

/// Signals that a terminal or a user sends to end, stop or continue a program.
const FORWARDED: [c_int; 8] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGCONT,
    libc::SIGWINCH,
];
/// Signals of job control, which the kernel sends to the whole group.
const STOPPING: [c_int; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
static PROGRAM: AtomicI32 = AtomicI32::new(0);
/// A process has sent SIGCONT before the program was known.
static IS_CONTINUED: AtomicBool = AtomicBool::new(false);

/// Makes the tracer independent of signals to the program's process group, and of a reader that has ended. The tracer
/// ends with its caller.
pub(crate) fn prepare_tracer() {
    for number in FORWARDED.into_iter().chain(STOPPING).chain([libc::SIGPIPE]) {
        set(number, libc::SIG_IGN);
    }
    set_with(libc::SIGALRM, interrupt as *const () as usize, 0);
    // SAFETY: it sets an attribute of this process.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Lets the tracer run on after its caller's end.
pub(crate) fn outlive_caller() {
    // SAFETY: it sets an attribute of this process.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, 0) };
}

/// Has this process note a SIGCONT for a program that may have stopped, with this process, before its number arrives.
/// Returns whether SIGCONT was ignored.
pub(crate) fn await_program() -> bool {
    // SAFETY: it writes to `before` alone, a structure for which zeros are a value.
    let before = unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGCONT, ptr::null(), &raw mut before);
        before.sa_sigaction
    };
    set(libc::SIGCONT, forward as *const () as usize);
    before == libc::SIG_IGN
}

/// Has this process treat SIGCONT as before.
pub(crate) fn ignore_continue(is_ignored: bool) {
    set(libc::SIGCONT, if is_ignored { libc::SIG_IGN } else { libc::SIG_DFL });
}

/// Has this process forward signals that a process sends to it alone. A terminal's signals reach the program, too, so
/// this process ignores them; it stops when the tracer reports that the program has stopped.
pub(crate) fn forward_to(program: pid_t) {
    PROGRAM.store(program, Ordering::Relaxed);
    for number in FORWARDED {
        set(number, forward as *const () as usize);
    }
    for number in STOPPING {
        set(number, libc::SIG_IGN);
    }
    if IS_CONTINUED.swap(false, Ordering::Relaxed) {
        // SAFETY: it sends a signal to the program.
        unsafe { libc::kill(program, libc::SIGCONT) };
    }
}

/// Restores the default actions after the program's end.
pub(crate) fn restore() {
    PROGRAM.store(0, Ordering::Relaxed);
    for number in FORWARDED.into_iter().chain(STOPPING) {
        set(number, libc::SIG_DFL);
    }
}

extern "C" fn forward(number: c_int, info: *mut siginfo_t, _: *mut c_void) {
    let program = PROGRAM.load(Ordering::Relaxed);
    // SAFETY: the kernel passes a valid structure to handlers that were installed with SA_SIGINFO.
    let is_sent_by_process = !info.is_null() && unsafe { (*info).si_code } <= 0;
    if program == 0 && is_sent_by_process && number == libc::SIGCONT {
        IS_CONTINUED.store(true, Ordering::Relaxed);
    }
    if program > 0 && is_sent_by_process {
        // SAFETY: it sends a signal, which handlers may do. The interrupted code retains its error number, which is this
        // thread's.
        unsafe {
            let errno = *libc::__errno_location();
            libc::kill(program, number);
            *libc::__errno_location() = errno;
        }
    }
}

/// Does nothing: the call that the signal interrupts returns.
extern "C" fn interrupt(_: c_int, _: *mut siginfo_t, _: *mut c_void) {}

fn set(number: c_int, action: usize) {
    let is_handler = action != libc::SIG_IGN && action != libc::SIG_DFL;
    set_with(number, action, if is_handler { libc::SA_SIGINFO | libc::SA_RESTART } else { 0 });
}

fn set_with(number: c_int, action: usize, flags: c_int) {
    // SAFETY: the structure is this function's own, and valid when all of it is zero; the handler calls only what
    // handlers may call.
    unsafe {
        let mut new = std::mem::zeroed::<libc::sigaction>();
        new.sa_sigaction = action;
        new.sa_flags = flags;
        libc::sigaction(number, &raw const new, ptr::null_mut());
    }
}
