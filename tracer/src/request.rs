//! Requests of ptrace to the kernel.

use std::io;
use std::ptr;

use libc::{c_long, c_uint, c_void, pid_t};

use crate::filter::MARK;

/// What is traced: all descendants, stops that can be distinguished, and an end of all with the tracer.
const OPTIONS: i32 = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEEXIT
    | libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_EXITKILL;
const GET_SYSCALL_INFO: c_uint = 0x420e;
const ENTRY: u8 = 1;
const EXIT: u8 = 2;
const SECCOMP: u8 = 3;

/// `struct ptrace_syscall_info` of the kernel.
#[repr(C)]
#[derive(Default)]
struct Info {
    operation: u8,
    padding: [u8; 3],
    architecture: u32,
    instruction: u64,
    stack: u64,
    data: [u64; 8],
}

/// The side of a call at which a thread stopped.
pub(crate) enum Side {
    /// Before it: number and arguments.
    Entry(c_long, [u64; 6]),
    /// After it: its result, or a negative error number.
    Exit(i64),
    /// Before it, at a filter of the program's own that leaves the call to a tracer, of which there is none.
    Foreign,
}

/// How a stopped thread goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resume {
    /// It does not yet.
    Wait,
    /// Until the filter or an event stops it.
    Run,
    /// Until a call begins or ends.
    ToCall,
    /// Stopped, until a SIGCONT.
    Listen,
    /// Untraced.
    Released,
}

fn request(request: c_uint, thread: pid_t, address: *mut c_void, data: *mut c_void) -> io::Result<c_long> {
    // SAFETY: callers pass addresses only of memory of their own that is as large as the request needs; all other
    // requests change another process alone.
    let result = unsafe { libc::ptrace(request as _, thread, address, data) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Attaches to a child of this process without stopping it.
pub(crate) fn seize(process: pid_t) -> io::Result<()> {
    request(libc::PTRACE_SEIZE as c_uint, process, ptr::null_mut(), OPTIONS as usize as *mut c_void).map(drop)
}

/// Stops a thread.
pub(crate) fn interrupt(thread: pid_t) {
    // A thread that has ended needs no stop.
    let _ = request(libc::PTRACE_INTERRUPT as c_uint, thread, ptr::null_mut(), ptr::null_mut());
}

/// Resumes a stopped thread and delivers a signal to it, 0 for none. One that was killed meanwhile is reported later.
pub(crate) fn resume(thread: pid_t, how: Resume, signal: i32) {
    let number = match how {
        Resume::Wait => return,
        Resume::Run => libc::PTRACE_CONT,
        Resume::ToCall => libc::PTRACE_SYSCALL,
        Resume::Listen => libc::PTRACE_LISTEN,
        Resume::Released => libc::PTRACE_DETACH,
    };
    let _ = request(number as c_uint, thread, ptr::null_mut(), signal as usize as *mut c_void);
}

/// Replaces a word in a process's memory, even where that is read-only for the process.
pub(crate) fn poke(thread: pid_t, address: u64, word: u64) -> io::Result<()> {
    request(libc::PTRACE_POKEDATA as c_uint, thread, address as *mut c_void, word as *mut c_void).map(drop)
}

/// Has a call that is about to begin fail with ENOSYS.
#[cfg(target_arch = "x86_64")]
pub(crate) fn refuse(thread: pid_t) {
    const ORIG_RAX: u64 = 8 * libc::ORIG_RAX as u64;
    // The kernel has set this result already, for calls that don't exist. One that was killed needs none.
    let _ = request(libc::PTRACE_POKEUSER as c_uint, thread, ORIG_RAX as *mut c_void, u64::MAX as *mut c_void);
}

/// As above: the call stands in a set of registers of its own, and its result in the first register.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn refuse(thread: pid_t) {
    const NT_PRSTATUS: u64 = 1;
    const NT_ARM_SYSTEM_CALL: u64 = 0x404;
    let mut number = -1i32;
    let mut registers = [0u64; 34];
    let mut call = libc::iovec { iov_base: (&raw mut number).cast(), iov_len: size_of::<i32>() };
    let mut all = libc::iovec { iov_base: registers.as_mut_ptr().cast(), iov_len: size_of_val(&registers) };
    let _ =
        request(libc::PTRACE_SETREGSET as c_uint, thread, NT_ARM_SYSTEM_CALL as *mut c_void, (&raw mut call).cast());
    if request(libc::PTRACE_GETREGSET as c_uint, thread, NT_PRSTATUS as *mut c_void, (&raw mut all).cast()).is_ok() {
        registers[0] = -i64::from(libc::ENOSYS) as u64;
        all.iov_base = registers.as_mut_ptr().cast();
        let _ = request(libc::PTRACE_SETREGSET as c_uint, thread, NT_PRSTATUS as *mut c_void, (&raw mut all).cast());
    }
}

/// Sets the first argument of a call that begins, or restores it when the call has ended.
#[cfg(target_arch = "x86_64")]
pub(crate) fn set_first_argument(thread: pid_t, value: u64) {
    let at = 8 * libc::RDI as u64;
    // One that was killed needs none.
    let _ = request(libc::PTRACE_POKEUSER as c_uint, thread, at as *mut c_void, value as *mut c_void);
}

/// Sets nothing: the first argument's register has the result, too.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn set_first_argument(_: pid_t, _: u64) {}

/// Returns the number that belongs to an event: the child's PID, or the thread that has executed a program.
pub(crate) fn event_number(thread: pid_t) -> Option<pid_t> {
    let mut number: libc::c_ulong = 0;
    let to = (&raw mut number).cast();
    request(libc::PTRACE_GETEVENTMSG as c_uint, thread, ptr::null_mut(), to).ok()?;
    pid_t::try_from(number).ok()
}

/// Returns where a thread stands that stopped at a call.
///
/// # Errors
/// The thread was killed, or the kernel is older than 5.3.
pub(crate) fn call(thread: pid_t) -> io::Result<Side> {
    let mut info = Info::default();
    let to = (&raw mut info).cast();
    request(GET_SYSCALL_INFO, thread, size_of::<Info>() as *mut c_void, to)?;
    let [number, arguments @ .., mark] = info.data;
    match info.operation {
        SECCOMP if mark as u32 != u32::from(MARK) => Ok(Side::Foreign),
        ENTRY | SECCOMP => Ok(Side::Entry(number as c_long, arguments)),
        EXIT => Ok(Side::Exit(number as i64)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Returns whether the kernel describes calls ([`call`]): from Linux 5.3 on.
pub(crate) fn describes_calls() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0u32));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (5, 3)
}
