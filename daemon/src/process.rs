//! The daemon as a process: its standard streams, signals and limits.

use std::io::{self};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use headwater_abi::Path;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::fs::{FileType, Mode};
use rustix::net::sockopt::socket_acceptconn;
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, setrlimit, umask};
use signal_hook::consts::{SIGHUP, SIGINT, SIGIO, SIGTERM, SIGXFSZ};

/// Assumed where the limit is unknown.
const DESCRIPTORS_DEFAULT: usize = 1024;

/// Makes this process a background process that protects its secrets.
pub fn settle() {
    umask(Mode::RWXG | Mode::RWXO);
    // The file system of the starter's directory may be unmounted.
    let _ = std::env::set_current_dir("/");
    // Fails for a process group leader, which has a group of its own already.
    let _ = rustix::process::setsid();
    // Neither core files nor debuggers of this user may show the session's key.
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Replaces standard input, output and error by `/dev/null`, so that no process waits for their end.
///
/// # Errors
/// `/dev/null` can't be opened.
pub fn close_stdio() -> io::Result<()> {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// Registers the signal pipe with the event loop.
pub fn watch(pipe: &OwnedFd, registry: &Registry, token: Token) -> io::Result<()> {
    registry.register(&mut SourceFd(&pipe.as_raw_fd()), token, Interest::READABLE)
}

/// Returns how many descriptors this process may have open.
pub fn descriptors_max() -> usize {
    let limit = getrlimit(Resource::Nofile).current.map_or(1 << 20, |limit| limit.min(1 << 20));
    usize::try_from(limit).unwrap_or(DESCRIPTORS_DEFAULT)
}

/// Returns a pipe's end that becomes readable on SIGTERM. Other signals are ignored: SIGINT and SIGHUP, which are meant
/// for the program; SIGIO, which shows that a process waits for a lease; and SIGXFSZ, whose cause is an error anyway.
pub fn catch_signals() -> io::Result<OwnedFd> {
    let ignored = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGHUP, SIGIO, SIGXFSZ] {
        signal_hook::flag::register(signal, Arc::clone(&ignored))?;
    }
    let (read, write) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(SIGTERM, write)?;
    Ok(read.into())
}

/// Raises the limits of open files and of file sizes, which the table needs, to the allowed maxima.
pub fn raise_limits() {
    for resource in [Resource::Nofile, Resource::Fsize] {
        let limit = getrlimit(resource);
        let _ = setrlimit(resource, Rlimit { current: limit.maximum, ..limit });
    }
}

/// Takes an inherited listening socket.
pub fn inherited_listener(number: i32) -> io::Result<TcpListener> {
    let socket = inherited(number, FileType::Socket)?;
    if socket_acceptconn(&socket)? { Ok(socket.into()) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Takes an inherited regular file; `path` is its path.
pub fn inherited_file(path: &str, number: i32) -> io::Result<(Path, OwnedFd)> {
    let path = Path::new(path.as_bytes()).ok_or(io::ErrorKind::InvalidInput)?;
    Ok((path, inherited(number, FileType::RegularFile)?))
}

/// Takes an inherited epoll instance.
pub fn inherited_epoll(number: i32) -> io::Result<OwnedFd> {
    take_if(number, |_| {
        let link = std::fs::read_link(format!("/proc/self/fd/{number}"));
        link.is_ok_and(|link| link.as_os_str() == "anon_inode:[eventpoll]")
    })
}

/// Takes an inherited descriptor if it is of this type, and sets close-on-exec.
pub fn inherited(number: i32, kind: FileType) -> io::Result<OwnedFd> {
    take_if(number, |mode| FileType::from_raw_mode(mode) == kind)
}

fn take_if(number: i32, is_expected: impl Fn(u32) -> bool) -> io::Result<OwnedFd> {
    if number <= 2 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the number is a descriptor that this process was started with for this purpose; if it
    // is not open, every use of it fails with EBADF.
    let status = rustix::fs::fstat(unsafe { BorrowedFd::borrow_raw(number) })?;
    if !is_expected(status.st_mode) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: as above, it is open, and nothing else in this process knows of it.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
    Ok(fd)
}

/// Returns a size in bytes, given the text of a file of `/proc` or `/sys` with a line such as `VmRSS:  1234 kB`, and the
/// name before the number. See proc(5).
pub(crate) fn size_in(text: &str, name: &str) -> Option<u64> {
    let size = text.lines().find_map(|line| line.split_once(name))?.1;
    size.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns a size in `/proc/self/status`, in bytes.
pub(crate) fn own_size(name: &str) -> Option<u64> {
    size_in(&std::fs::read_to_string("/proc/self/status").ok()?, name)
}
