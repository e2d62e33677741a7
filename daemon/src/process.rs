//! The daemon as a process: its standard streams, signals and limits.

use std::io::{self, IsTerminal};
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use headwater_abi::Path;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::fs::{FileType, Mode};
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, setrlimit, umask};
use signal_hook::consts::{SIGHUP, SIGINT, SIGIO, SIGTERM};

use crate::config::Config;
use crate::control::Control;
use crate::event_loop::{DaemonError, serve};
use crate::reader::Opened;

/// Descriptors to plan with where the limit can't be known.
const DESCRIPTORS_DEFAULT: usize = 1024;

/// The process `headwater daemon`: reads a [`Config`] as one line of JSON from standard input, and
/// serves until standard input says `stop` or ends, or SIGTERM comes. Standard output gets
/// `{"ready":true}` and, unless standard input has ended, a [`Report`](crate::Report).
///
/// Call it before any thread is started. Logs go to standard error as `HEADWATER_LOG` says.
pub fn run_from_stdio() -> ExitCode {
    log_to_stderr();
    match run_process() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("the daemon ends: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a daemon in this process, on `listener` instead of the configuration's descriptor, until
/// `lifeline` says `stop` or ends. `output` gets what standard output would.
pub fn run(
    config: &Config,
    listener: TcpListener,
    lifeline: OwnedFd,
    output: &mut dyn io::Write,
) -> Result<(), DaemonError> {
    serve(config, listener, Opened::default(), Control::new(lifeline), None, output)
}

fn run_process() -> Result<(), DaemonError> {
    let system = |what| move |source: io::Error| DaemonError::System { what, source };
    umask(Mode::RWXG | Mode::RWXO);
    // Fails for the leader of a process group, whose signals are its own already.
    let _ = rustix::process::setsid();
    // No core file and no debugger of the same user shows the session's key.
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    raise_descriptor_limit();
    let termination = catch_signals().map_err(system("catch signals"))?;
    let input = io::stdin().as_fd().try_clone_to_owned().map_err(system("use standard input"))?;
    let (config, control) = Control::start(input).map_err(system("read a configuration from standard input"))?;
    let listener = inherited_listener(config.listener_fd).map_err(system("use the inherited socket"))?;
    let opened = config.opened.iter().filter_map(|(path, number)| inherited_file(path, *number).ok()).collect();
    serve(&config, listener, opened, control, Some(termination), &mut io::stdout().lock())
}

/// Has the event loop woken by a signal.
pub(crate) fn watch(pipe: &OwnedFd, registry: &Registry, token: Token) -> io::Result<()> {
    registry.register(&mut SourceFd(&pipe.as_raw_fd()), token, Interest::READABLE)
}

/// Descriptors that this process may have open.
pub(crate) fn descriptors_max() -> usize {
    let limit = getrlimit(Resource::Nofile).current.map_or(1 << 20, |limit| limit.min(1 << 20));
    usize::try_from(limit).unwrap_or(DESCRIPTORS_DEFAULT)
}

fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("HEADWATER_LOG");
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    // A second subscriber in one process is refused; the first one then serves.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr)
        .try_init();
}

/// The end of a pipe that becomes readable on SIGTERM. What else could end the daemon is ignored: it
/// outlives Ctrl-C, and SIGIO only says that a process waits for a lease.
fn catch_signals() -> io::Result<OwnedFd> {
    let ignored = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGHUP, SIGIO] {
        signal_hook::flag::register(signal, Arc::clone(&ignored))?;
    }
    let (read, write) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(SIGTERM, write)?;
    Ok(read.into())
}

fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

fn inherited_listener(number: i32) -> io::Result<TcpListener> {
    if number <= 2 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the number is a descriptor that this process was started with for this purpose; if it
    // is not open, every use of it fails with EBADF.
    let is_listening = rustix::net::sockopt::socket_acceptconn(unsafe { BorrowedFd::borrow_raw(number) })?;
    if !is_listening {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: as above, it is open, and nothing else in this process knows of it.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    Ok(socket.into())
}

fn inherited_file(path: &str, number: i32) -> io::Result<(Path, OwnedFd)> {
    let path = Path::new(path.as_bytes()).filter(|_| number > 2).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: the number is a descriptor that this process was started with for this purpose; if it
    // is not open, every use of it fails with EBADF.
    let status = rustix::fs::fstat(unsafe { BorrowedFd::borrow_raw(number) })?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: as above, it is open, and nothing else in this process knows of it.
    let file = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::CLOEXEC)?;
    Ok((path, file))
}
