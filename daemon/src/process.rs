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
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, setrlimit, umask};
use signal_hook::consts::{SIGHUP, SIGINT, SIGIO, SIGTERM, SIGXFSZ};

/// Descriptors to plan with where the limit can't be known.
const DESCRIPTORS_DEFAULT: usize = 1024;

/// Makes this process a background process that keeps its secrets.
pub fn settle() {
    umask(Mode::RWXG | Mode::RWXO);
    // The file system of its starter's directory may go.
    let _ = std::env::set_current_dir("/");
    // Fails for the leader of a process group, whose signals are its own already.
    let _ = rustix::process::setsid();
    // No core file and no debugger of the same user shows the session's key.
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Has the event loop woken by a signal.
pub fn watch(pipe: &OwnedFd, registry: &Registry, token: Token) -> io::Result<()> {
    registry.register(&mut SourceFd(&pipe.as_raw_fd()), token, Interest::READABLE)
}

/// Descriptors that this process may have open.
pub fn descriptors_max() -> usize {
    let limit = getrlimit(Resource::Nofile).current.map_or(1 << 20, |limit| limit.min(1 << 20));
    usize::try_from(limit).unwrap_or(DESCRIPTORS_DEFAULT)
}

/// The end of a pipe that becomes readable on SIGTERM. What else could end the daemon is ignored: it
/// outlives Ctrl-C, SIGIO only says that a process waits for a lease, and a file that would exceed the user's
/// limit fails by its error.
pub fn catch_signals() -> io::Result<OwnedFd> {
    let ignored = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGHUP, SIGIO, SIGXFSZ] {
        signal_hook::flag::register(signal, Arc::clone(&ignored))?;
    }
    let (read, write) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(SIGTERM, write)?;
    Ok(read.into())
}

/// Raises to what the user may have: open files, and bytes of a file, of which the table needs some.
pub fn raise_limits() {
    for resource in [Resource::Nofile, Resource::Fsize] {
        let limit = getrlimit(resource);
        let _ = setrlimit(resource, Rlimit { current: limit.maximum, ..limit });
    }
}

/// A listening socket.
pub fn inherited_listener(number: i32) -> io::Result<TcpListener> {
    let is_listening = |socket: BorrowedFd<'_>| Ok(rustix::net::sockopt::socket_acceptconn(socket)?);
    Ok(inherited(number, is_listening)?.into())
}

/// Descriptors of the mounted file system's connection.
pub fn inherited_devices(numbers: &[i32]) -> io::Result<Vec<OwnedFd>> {
    numbers.iter().map(|number| inherited(*number, |device| is_a(device, FileType::CharacterDevice))).collect()
}

/// A pipe.
pub fn inherited_pipe(number: i32) -> io::Result<OwnedFd> {
    inherited(number, |pipe| is_a(pipe, FileType::Fifo))
}

/// A directory.
pub fn inherited_directory(number: i32) -> io::Result<OwnedFd> {
    inherited(number, |directory| is_a(directory, FileType::Directory))
}

/// A regular file, by its path.
pub fn inherited_file(path: &str, number: i32) -> io::Result<(Path, OwnedFd)> {
    let path = Path::new(path.as_bytes()).ok_or(io::ErrorKind::InvalidInput)?;
    Ok((path, inherited(number, |file| is_a(file, FileType::RegularFile))?))
}

/// A descriptor that this process was started with, if it is what it should be. It is closed on
/// `exec` from now on.
pub fn inherited(number: i32, is_right: impl FnOnce(BorrowedFd<'_>) -> io::Result<bool>) -> io::Result<OwnedFd> {
    if number <= 2 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the number is a descriptor that this process was started with for this purpose; if it
    // is not open, every use of it fails with EBADF.
    if !is_right(unsafe { BorrowedFd::borrow_raw(number) })? {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: as above, it is open, and nothing else in this process knows of it.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
    Ok(fd)
}

fn is_a(fd: BorrowedFd<'_>, kind: FileType) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode) == kind)
}
