//! What a system call does with the file system, by its arguments and its result.

use std::path::PathBuf;

use headwater_closure::recorded::CallKind;
use libc::{c_long, pid_t};

use crate::{memory, request};

/// The flag of a child that is not to be traced.
const UNTRACED: u64 = libc::CLONE_UNTRACED as u64;

/// A call that has begun.
#[derive(Debug)]
pub(crate) enum Begun {
    /// A call on a path.
    Path(CallKind, PathBuf),
    /// The execution of a program.
    Execute(PathBuf),
    /// A read from a descriptor.
    Read(i32),
    /// The names of a directory, written to an address.
    List(i32, u64),
    /// A mapping of so many bytes.
    Map(i32, u64, CallKind),
    /// What glibc does when all libraries are loaded: it asks for the limit of the stack.
    LoadedMark,
    /// A question for the processors of a thread.
    Processors(pid_t),
    /// A child is made that wants to be untraced, so the filter's stops would fail: the word with this flag is changed
    /// for the call, at an address or in the first argument.
    Untraced(Option<u64>, u64),
}

/// The result of a call on a path.
#[derive(Debug)]
pub(crate) struct Result {
    pub(crate) kind: CallKind,
    pub(crate) path: PathBuf,
    pub(crate) errno: u32,
    pub(crate) size: u64,
}

/// Returns what begins with this call; `None` if it concerns no file.
pub(crate) fn begun(thread: pid_t, number: c_long, arguments: [u64; 6]) -> Option<Begun> {
    let [first, second, third, fourth, fifth, _] = arguments;
    let at = |directory: u64, address: u64| memory::path(thread, directory as i32, &memory::string(thread, address)?);
    let here = libc::AT_FDCWD as u64;
    let path = |kind, path: Option<PathBuf>| Some(Begun::Path(kind, path?));
    match number {
        libc::SYS_openat => path(opening(third), at(first, second)),
        libc::SYS_openat2 => {
            let mut flags = [0; 8];
            memory::read(thread, third, &mut flags);
            path(opening(u64::from_ne_bytes(flags)), at(first, second))
        }
        libc::SYS_newfstatat | libc::SYS_statx | libc::SYS_faccessat | libc::SYS_faccessat2 => {
            path(CallKind::Stat, at(first, second))
        }
        libc::SYS_readlinkat => path(CallKind::Link, at(first, second)),
        libc::SYS_execve => Some(Begun::Execute(at(here, first)?)),
        libc::SYS_execveat => {
            let name = memory::string(thread, second)?;
            let file = if name.is_empty() { memory::descriptor(thread, first as i32) } else { at(first, second) };
            Some(Begun::Execute(file?))
        }
        libc::SYS_read | libc::SYS_pread64 => Some(Begun::Read(first as i32)),
        libc::SYS_getdents64 => Some(Begun::List(first as i32, second)),
        libc::SYS_mmap if fourth & libc::MAP_ANONYMOUS as u64 == 0 => {
            let kind = if third & libc::PROT_EXEC as u64 != 0 { CallKind::Load } else { CallKind::Map };
            Some(Begun::Map(fifth as i32, second, kind))
        }
        libc::SYS_prlimit64 if second == u64::from(libc::RLIMIT_STACK) && third == 0 => Some(Begun::LoadedMark),
        libc::SYS_sched_getaffinity => {
            Some(Begun::Processors(if first as pid_t == 0 { thread } else { first as pid_t }))
        }
        libc::SYS_clone if first & UNTRACED != 0 => {
            request::set_first_argument(thread, first & !UNTRACED);
            Some(Begun::Untraced(None, first))
        }
        libc::SYS_clone3 => {
            let mut flags = [0; 8];
            memory::read(thread, first, &mut flags);
            let flags = u64::from_ne_bytes(flags);
            let is_changed = flags & UNTRACED != 0 && request::poke(thread, first, flags & !UNTRACED).is_ok();
            is_changed.then_some(Begun::Untraced(Some(first), flags))
        }
        _ => begun_by_old(number, first, second, path, &at),
    }
}

/// As [`begun`], for calls that newer architectures lack.
#[cfg(target_arch = "x86_64")]
fn begun_by_old(
    number: c_long,
    first: u64,
    second: u64,
    path: impl Fn(CallKind, Option<PathBuf>) -> Option<Begun>,
    at: &dyn Fn(u64, u64) -> Option<PathBuf>,
) -> Option<Begun> {
    let named = at(libc::AT_FDCWD as u64, first);
    match number {
        libc::SYS_open => path(opening(second), named),
        libc::SYS_creat => path(CallKind::Write, named),
        libc::SYS_stat | libc::SYS_lstat | libc::SYS_access => path(CallKind::Stat, named),
        libc::SYS_readlink => path(CallKind::Link, named),
        _ => None,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn begun_by_old(
    _: c_long,
    _: u64,
    _: u64,
    _: impl Fn(CallKind, Option<PathBuf>) -> Option<Begun>,
    _: &dyn Fn(u64, u64) -> Option<PathBuf>,
) -> Option<Begun> {
    None
}

fn opening(flags: u64) -> CallKind {
    let writes = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT) as u64;
    if flags & writes == 0 { CallKind::Open } else { CallKind::Write }
}

impl Begun {
    /// Returns whether the result matters.
    pub(crate) fn has_result(&self) -> bool {
        !matches!(self, Begun::LoadedMark)
    }

    /// Returns whether the processors of a process stand in the file.
    pub(crate) fn shows_affinity(&self) -> bool {
        let Begun::Path(_, path) = self else { return false };
        path.starts_with("/proc") && path.ends_with("status")
    }

    /// Returns the call with its result; `None` if it concerns no file, or is made again.
    pub(crate) fn ended(self, thread: pid_t, result: i64) -> Option<Result> {
        /// Error numbers from here on are the kernel's own: an interrupted call begins again.
        const INTERNAL: u32 = 512;
        let errno = if (-4095..0).contains(&result) { -result as u32 } else { 0 };
        if errno >= INTERNAL {
            return None;
        }
        let size = if errno == 0 { result as u64 } else { 0 };
        let (kind, path, size) = match self {
            Begun::Path(kind, path) => (kind, path, 0),
            Begun::Execute(path) => (CallKind::Execute, path, 0),
            Begun::Read(from) => (CallKind::Read, memory::descriptor(thread, from)?, size),
            Begun::List(from, address) => {
                (CallKind::List, memory::descriptor(thread, from)?, memory::names(thread, address, size as usize))
            }
            Begun::Map(from, bytes, kind) => (kind, memory::descriptor(thread, from)?, bytes),
            Begun::LoadedMark | Begun::Processors(_) => return None,
            Begun::Untraced(address, word) => {
                match address {
                    // What can be changed can be restored.
                    Some(address) => drop(request::poke(thread, address, word)),
                    None => request::set_first_argument(thread, word),
                }
                return None;
            }
        };
        Some(Result { kind, path, errno, size })
    }
}
