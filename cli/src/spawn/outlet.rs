//! The processes' output, in whole lines, each labelled with its process's number.
//!
//! Each stream of each process is a pipe. A process opens it by its path in /proc, so no descriptor is passed on, and
//! no process has another one's pipe. One thread reads all pipes. If this command's output is closed, the thread closes
//! the pipes of that stream, and writing processes get the same error as without headwater.

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::library::FileAction;
use super::screen::Screen;
use crate::message::log;

/// Longer lines are broken.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Bytes that are read from one pipe in a turn.
const READ_BYTES: usize = 64 << 10;
const EVENTS_MAX: usize = 64;
/// The event number of the pipe that closes when all processes are started.
const END: u64 = u64::MAX;

/// A stream of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Output,
    Error,
}

/// The thread that reads the processes' pipes. It is dropped when all processes are started.
#[derive(Debug)]
pub struct Outlet {
    shared: Arc<Shared>,
    /// Its closing notifies the thread that all processes are started.
    _more: OwnedFd,
    next: u64,
}

#[derive(Debug)]
struct Shared {
    epoll: OwnedFd,
    sources: Mutex<HashMap<u64, Source>>,
    screen: Arc<Screen>,
}

#[derive(Debug)]
struct Source {
    pipe: OwnedFd,
    stream: Stream,
    rank: u32,
    /// The beginning of a line.
    pending: Vec<u8>,
}

/// Descriptors that stay open until the process has opened its pipes.
#[derive(Debug)]
pub struct Ends {
    _ends: [OwnedFd; 2],
}

impl Outlet {
    /// Starts the thread. Calls `ended` when the last pipe is closed at its other end, with whether all was written.
    pub fn start(screen: Arc<Screen>, ended: impl FnOnce(bool) + Send + 'static) -> io::Result<Outlet> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (end, more) = pipe_with(PipeFlags::CLOEXEC)?;
        epoll::add(&epoll, &end, EventData::new_u64(END), EventFlags::IN)?;
        let shared = Arc::new(Shared { epoll, sources: Mutex::default(), screen });
        let reader = Reader { shared: Arc::clone(&shared), end: Some(end), lost: [false; 2] };
        thread::Builder::new().name("output".into()).spawn(move || ended(reader.read()))?;
        Ok(Outlet { shared, _more: more, next: 0 })
    }

    /// Makes pipes for a process; returns the actions that open them, and descriptors to hold until then.
    pub fn connect(&mut self, rank: u32) -> io::Result<(Vec<FileAction>, Ends)> {
        let (output, output_end) = self.pipe(rank, Stream::Output)?;
        let (error, error_end) = self.pipe(rank, Stream::Error)?;
        Ok((vec![output, error], Ends { _ends: [output_end, error_end] }))
    }

    fn pipe(&mut self, rank: u32, stream: Stream) -> io::Result<(FileAction, OwnedFd)> {
        let (pipe, end) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&pipe, true)?;
        let action = FileAction::Open { fd: stream.fd().as_raw_fd(), path: path(&end), flags: libc::O_WRONLY, mode: 0 };
        self.next += 1;
        let (number, raw) = (EventData::new_u64(self.next), pipe.as_raw_fd());
        let mut sources = self.shared.sources();
        let source = sources.entry(self.next).or_insert(Source { pipe, stream, rank, pending: Vec::new() });
        debug_assert_eq!(source.pipe.as_raw_fd(), raw);
        epoll::add(&self.shared.epoll, &source.pipe, number, EventFlags::IN)?;
        Ok((action, end))
    }
}

/// Returns the path by which processes open this process's descriptor.
fn path(fd: &OwnedFd) -> CString {
    let text = format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd());
    CString::new(text).expect("digits and slashes")
}

/// Returns whether processes can open this one's pipes by /proc.
pub fn can_connect() -> bool {
    let Ok((_pipe, end)) = pipe_with(PipeFlags::CLOEXEC) else { return false };
    rustix::fs::open(path(&end), rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC, rustix::fs::Mode::empty())
        .is_ok()
}

impl Shared {
    fn sources(&self) -> MutexGuard<'_, HashMap<u64, Source>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stream {
    fn fd(self) -> BorrowedFd<'static> {
        match self {
            Stream::Output => rustix::stdio::stdout(),
            Stream::Error => rustix::stdio::stderr(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Stream::Output => "standard output",
            Stream::Error => "standard error",
        }
    }
}

/// The reading thread.
struct Reader {
    shared: Arc<Shared>,
    end: Option<OwnedFd>,
    /// Streams that can't be written any more.
    lost: [bool; 2],
}

impl Reader {
    /// Reads until the end; returns whether all was written.
    fn read(mut self) -> bool {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut buffer = vec![0; READ_BYTES];
        while self.end.is_some() || !self.shared.sources().is_empty() {
            events.clear();
            match epoll::wait(&self.shared.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => break,
            }
            for event in &events {
                match event.data.u64() {
                    END => self.end = None,
                    number => self.turn(number, &mut buffer),
                }
            }
        }
        self.lost == [false; 2]
    }

    /// Reads once from one pipe, and writes the lines that are complete.
    fn turn(&mut self, number: u64, buffer: &mut [u8]) {
        let Some(mut source) = self.shared.sources().remove(&number) else { return };
        let has_ended = match rustix::io::read(&source.pipe, &mut *buffer) {
            Ok(0) => true,
            Ok(bytes) => {
                source.pending.extend_from_slice(&buffer[..bytes]);
                false
            }
            Err(Errno::AGAIN | Errno::INTR) => false,
            Err(_) => true,
        };
        let lines = source.take_lines(has_ended);
        let lost = &mut self.lost[source.stream as usize];
        if !lines.is_empty() && !*lost {
            let written = self.shared.screen.cleared(|| write_all(source.stream.fd(), &lines));
            if let Err(e) = written {
                *lost = true;
                if e != Errno::PIPE {
                    let (name, e) = (source.stream.name(), io::Error::from(e));
                    log(format_args!("{name} can't be written: {e}. Further output of processes there is lost"));
                }
            }
        }
        if !has_ended && !*lost {
            self.shared.sources().insert(number, source);
        }
    }
}

impl Source {
    /// Takes the complete lines, labelled; at the pipe's end the rest, too.
    fn take_lines(&mut self, has_ended: bool) -> Vec<u8> {
        let complete = match self.pending.iter().rposition(|&byte| byte == b'\n') {
            _ if has_ended || self.pending.len() >= LINE_BYTES_MAX => self.pending.len(),
            Some(last) => last + 1,
            None => return Vec::new(),
        };
        let label = format!("{}: ", self.rank);
        let mut lines = Vec::with_capacity(complete + 16 * label.len());
        for line in self.pending[..complete].split_inclusive(|&byte| byte == b'\n') {
            lines.extend_from_slice(label.as_bytes());
            lines.extend_from_slice(line);
        }
        if lines.last().is_some_and(|&last| last != b'\n') {
            lines.push(b'\n');
        }
        self.pending.drain(..complete);
        lines
    }
}

/// Writes all bytes. Another process that shares the file may have made it non-blocking.
fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                poll(&mut [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::OUT)], None).map(drop)?;
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_labelled_when_they_are_complete() {
        let (pipe, _end) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let mut source = Source { pipe, stream: Stream::Output, rank: 12, pending: Vec::new() };
        let mut check = |text: &str, has_ended: bool, expected: &str| {
            source.pending.extend_from_slice(text.as_bytes());
            assert_eq!(String::from_utf8_lossy(&source.take_lines(has_ended)), expected);
        };
        check("a", false, "");
        check("b\nc", false, "12: ab\n");
        check("\n\n", false, "12: c\n12: \n");
        check("rest", true, "12: rest\n");
        check("", true, "");
        let long = "x".repeat(LINE_BYTES_MAX);
        check(&long, false, &format!("12: {long}\n"));
    }
}
