//! Spawning on behalf of another process: bindings of `spawn/src/spawn_on_behalf.h`.
//!
//! One process describes itself, and sends the description and its descriptors. The other process has a zygote fork
//! the process that the first would have become.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_uint};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libc::pid_t;
use rustix::process::Pid;

use super::library::{Interpreter, Mechanism, RawContext, RawContextOptions, left_out, list};
use crate::process::inherited;

/// `HWSP_FDS_MAX`.
pub const FDS_MAX: usize = 240;
/// `HWSP_REASON_BYTES`.
const REASON_BYTES: usize = 480;

/// A process's description of itself.
#[derive(Debug)]
pub struct Description {
    /// The library's encoding.
    pub data: Vec<u8>,
    /// A digest of properties that a forked process can't change.
    pub attributes: u64,
    /// A digest of the variables at which programs look before `main`.
    pub variables: u64,
    /// The descriptors that exec keeps.
    pub fds: Vec<RawFd>,
}

impl Description {
    /// Returns the descriptors. They stay open while the description exists.
    pub fn borrowed(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        // SAFETY: they are open, and belong to the program to be executed, not to anything in this one.
        self.fds.iter().map(|&fd| unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Closes all descriptors but `kept`.
    pub fn close_but(self, kept: RawFd) {
        for fd in self.fds.into_iter().filter(|&fd| fd != kept) {
            // SAFETY: as above; standard input and output aren't used from here on.
            unsafe { libc::close(fd) };
        }
    }
}

#[repr(C)]
struct RawDescription {
    data: *mut c_char,
    bytes: usize,
    attributes: u64,
    variables: u64,
    fd_count: u32,
    fds: [i32; FDS_MAX],
}

#[repr(C)]
struct RawArrived {
    data: *const c_char,
    bytes: usize,
    fds: *const c_int,
    fd_count: u32,
    cwd: c_int,
    cgroup: c_int,
    attributes: u64,
}

unsafe extern "C" {
    fn hwsp_describe(
        argv: *const *const c_char,
        envp: *const *const c_char,
        python: bool,
        ignored: u64,
        blocked: u64,
        description: *mut RawDescription,
    ) -> c_int;
    fn hwsp_context_create_idle(
        context: *mut RawContext,
        path: *const c_char,
        options: *const RawContextOptions,
    ) -> c_int;
    fn hwsp_on_behalf_prepare(context: *mut RawContext, arrived: *const RawArrived, why: *mut c_char) -> c_int;
    fn hwsp_on_behalf_spawn(
        context: *mut RawContext,
        arrived: *const RawArrived,
        pid: *mut pid_t,
        why: *mut c_char,
    ) -> c_int;
}

/// Describes this process, and the program that it would execute; `is_python`: that is a Python interpreter.
///
/// # Errors
/// More files are open than can be passed on, or `/proc` can't be read.
pub fn describe(arguments: &[CString], environment: &[CString], is_python: bool) -> io::Result<Description> {
    let (argv, envp) = (list(arguments), list(environment));
    let (ignored, blocked) = inherited::signals();
    let mut raw = Box::new(MaybeUninit::<RawDescription>::zeroed());
    // SAFETY: both lists end with NULL and live until the call is over, which keeps nothing of them.
    let error = unsafe { hwsp_describe(argv.as_ptr(), envp.as_ptr(), is_python, ignored, blocked, raw.as_mut_ptr()) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    // SAFETY: numbers and a pointer are valid with any content, and were zeroed.
    let raw = unsafe { raw.assume_init_ref() };
    // SAFETY: after success there are so many bytes.
    let data = unsafe { std::slice::from_raw_parts(raw.data.cast::<u8>(), raw.bytes) }.to_vec();
    // SAFETY: they were allocated for the caller, and are not used afterwards.
    unsafe { libc::free(raw.data.cast()) };
    let fds = raw.fds[..raw.fd_count as usize].to_vec();
    Ok(Description { data, attributes: raw.attributes, variables: raw.variables, fds })
}

/// A description that was received from another process. It may have any content.
#[derive(Debug)]
pub struct Arrived<'a> {
    /// The library's encoding.
    pub data: &'a [u8],
    /// The received descriptors, one for each described one.
    pub fds: &'a [OwnedFd],
    /// The working directory.
    pub cwd: &'a OwnedFd,
    /// The directory of its control group, unless that is this process's.
    pub cgroup: Option<BorrowedFd<'a>>,
    /// The digest that was received with it.
    pub attributes: u64,
}

/// A program whose zygote is started on first use. Its processes are children of this one.
#[derive(Debug)]
pub struct Warm(RawContext);

impl Warm {
    /// Prepares a program by its path; `start_ms_max` is the timeout of its zygote's start.
    ///
    /// # Errors
    /// Those of `execve`. A program that can't become a zygote is reported later.
    pub fn create(
        program: &Path,
        interpreter: Option<&Interpreter>,
        zygote_library: &OsStr,
        start_ms_max: u32,
    ) -> io::Result<Warm> {
        let program = CString::new(program.as_os_str().as_bytes())?;
        let mechanism = Mechanism::Zygote as c_uint;
        let options = RawContextOptions { mechanism, start_ms_max, ..RawContextOptions::default() };
        // SAFETY: the options point to nothing. A zygote stops before the first constructor, which is 0.
        unsafe { RawContext::create(hwsp_context_create_idle, &program, interpreter, zygote_library, options) }
            .map(Warm)
    }

    /// Starts a zygote for the process, if there is none.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn prepare(&mut self, arrived: &Arrived) -> Result<(), String> {
        let fds = numbers(arrived);
        let (raw, mut why) = (raw(arrived, &fds), [0; REASON_BYTES]);
        // SAFETY: the context was made; what `raw` points to lives until the call is over; `why` has room.
        let error = unsafe { hwsp_on_behalf_prepare(&raw mut self.0, &raw const raw, why.as_mut_ptr()) };
        outcome(error, &why)
    }

    /// Returns modules that the zygote has not imported, each with the reason: missing ones, and those that processes
    /// import themselves.
    pub fn left_out(&self) -> (Vec<String>, Vec<String>) {
        left_out(&self.0)
    }

    /// Forks the process, which is killed when this thread ends.
    ///
    /// # Errors
    /// The reason of a failure.
    pub fn spawn(&mut self, arrived: &Arrived) -> Result<Pid, String> {
        let fds = numbers(arrived);
        let (raw, mut why, mut pid) = (raw(arrived, &fds), [0; REASON_BYTES], 0);
        // SAFETY: as above, and `pid` is the library's to write.
        let error = unsafe { hwsp_on_behalf_spawn(&raw mut self.0, &raw const raw, &raw mut pid, why.as_mut_ptr()) };
        outcome(error, &why)?;
        Pid::from_raw(pid).ok_or_else(|| String::from("the zygote reported no process"))
    }
}

fn numbers(arrived: &Arrived) -> Vec<c_int> {
    arrived.fds.iter().map(AsRawFd::as_raw_fd).collect()
}

fn raw(arrived: &Arrived, fds: &[c_int]) -> RawArrived {
    RawArrived {
        data: arrived.data.as_ptr().cast(),
        bytes: arrived.data.len(),
        fds: fds.as_ptr(),
        fd_count: fds.len() as u32,
        cwd: arrived.cwd.as_raw_fd(),
        cgroup: arrived.cgroup.map_or(-1, |directory| directory.as_raw_fd()),
        attributes: arrived.attributes,
    }
}

fn outcome(error: c_int, why: &[c_char; REASON_BYTES]) -> Result<(), String> {
    if error == 0 {
        return Ok(());
    }
    let bytes: Vec<u8> = why.iter().map(|&byte| byte as u8).collect();
    let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default().to_string_lossy();
    Err(if text.is_empty() { io::Error::from_raw_os_error(error).to_string() } else { text.into_owned() })
}

/// Sizes and offsets that a test compares with those in C.
#[cfg(test)]
pub(super) fn layout() -> [usize; 4] {
    use std::mem::offset_of;
    let fds = offset_of!(RawDescription, fds);
    [size_of::<RawDescription>(), fds, size_of::<RawArrived>(), offset_of!(RawArrived, attributes)]
}
