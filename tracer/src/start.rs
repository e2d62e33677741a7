//! Starts the tracer and the program.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use libc::pid_t;

use crate::messages::{Message, Messages};
use crate::processes::{Processes, Stops};
use crate::{filter, privileges, request, signals};

/// How a program is traced.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Tracing ends so long after the start, and the program runs on. The program stops at each call until then.
    pub until: Option<Duration>,
    /// The program stops at each call, and no filter is installed: nothing is refused to it.
    pub exact: bool,
    /// The program is not traced, for this reason.
    pub untraced: Option<String>,
}

/// A program that runs.
pub struct Traced {
    messages: BufReader<File>,
    tracer: pid_t,
}

/// What the program's process is to do.
const FILTER: u8 = b'f';
const GO: u8 = b'g';
/// What it reports of its filter.
const INSTALLED: u8 = b'i';
const FAILED: u8 = b'x';

/// Starts a program as a child of a tracer, which is a child of this process. `execute` runs in the program's process:
/// it executes the program, and returns an exit status if that fails.
///
/// Call it before any thread is started. From then on this process forwards signals to the program.
///
/// # Errors
/// The limit of processes or descriptors is reached; nothing was started.
pub fn start(options: &Options, execute: impl FnOnce() -> u8) -> io::Result<Traced> {
    let (from_tracer, to_caller) = pipe()?;
    // SAFETY: it only returns a number.
    let caller = unsafe { libc::getpid() };
    let is_ignored = signals::await_program();
    // SAFETY: this process has one thread, so the copy of it may do whatever this one may.
    match unsafe { libc::fork() } {
        -1 => {
            let error = io::Error::last_os_error();
            signals::ignore_continue(is_ignored);
            Err(error)
        }
        0 => {
            drop(from_tracer);
            signals::ignore_continue(is_ignored);
            trace(options, caller, Messages::new(to_caller), execute)
        }
        tracer => {
            drop(to_caller);
            let mut messages = BufReader::with_capacity(1 << 16, from_tracer);
            let mut line = Vec::new();
            messages.read_until(b'\n', &mut line)?;
            match Message::parse(line.trim_ascii_end()) {
                Some(Message::Program(program)) => signals::forward_to(program as pid_t),
                _ => return Err(io::ErrorKind::WouldBlock.into()),
            }
            Ok(Traced { messages, tracer })
        }
    }
}

impl Traced {
    /// Passes each report to `handle`. Returns how the program ended, when it has.
    pub fn wait(mut self, mut handle: impl FnMut(Message)) -> ExitStatus {
        let mut line = Vec::new();
        let status = loop {
            line.clear();
            match self.messages.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break self.tracer_status(),
                Ok(_) => {}
            }
            match Message::parse(line.trim_ascii_end()) {
                Some(Message::Ended(status)) => break status,
                Some(message) => handle(message),
                None => {}
            }
        };
        signals::restore();
        ExitStatus::from_raw(status)
    }

    /// Returns the wait status of a tracer that was killed, and the program with it.
    fn tracer_status(&self) -> i32 {
        let mut status = 0;
        // SAFETY: it writes to `status` alone.
        unsafe { libc::waitpid(self.tracer, &raw mut status, 0) };
        status
    }
}

/// Runs the tracer, in its process.
fn trace(options: &Options, caller: pid_t, mut messages: Messages, execute: impl FnOnce() -> u8) -> ! {
    let Ok(((program_input, mut to_program), (mut from_program, program_output))) =
        pipe().and_then(|first| pipe().map(|second| (first, second)))
    else {
        end(1)
    };
    // SAFETY: this process has one thread, so the copy of it may do whatever this one may.
    let program = match unsafe { libc::fork() } {
        -1 => end(1),
        0 => {
            drop((to_program, from_program, messages));
            become_program(program_input, program_output, execute)
        }
        program => program,
    };
    drop((program_input, program_output));
    signals::prepare_tracer();
    messages.program(program);
    let mut stops = attach(program, options, &mut messages);
    let order = if stops == Stops::Filtered { FILTER } else { GO };
    // The program waits for the order before it executes anything.
    let _ = to_program.write_all(&[order]);
    let mut answer = [FAILED];
    if stops == Stops::Filtered && (from_program.read_exact(&mut answer).is_err() || answer == [FAILED]) {
        stops = Stops::Each;
    }
    if stops == Stops::Each {
        request::interrupt(program);
    }
    let _ = to_program.write_all(&[GO]);
    drop((to_program, from_program));
    close_standard();
    Processes::new(program, stops, options.until, caller, messages).follow();
    end(0)
}

/// Attaches to the program's process; reports why, if that is not possible.
fn attach(program: pid_t, options: &Options, messages: &mut Messages) -> Stops {
    let why = match &options.untraced {
        Some(why) => why.clone(),
        None if !request::describes_calls() => "the kernel is older than 5.3".into(),
        None => match request::seize(program) {
            Ok(()) if options.exact || options.until.is_some() || !privileges::survive_filter() => return Stops::Each,
            Ok(()) => return Stops::Filtered,
            Err(error) => format!("the system doesn't allow that it is traced ({error})"),
        },
    };
    messages.untraced(&why);
    Stops::None
}

/// Runs in the program's process.
fn become_program(mut input: File, mut output: File, execute: impl FnOnce() -> u8) -> ! {
    let mut order = [0];
    if input.read_exact(&mut order).is_err() {
        end(1);
    }
    if order == [FILTER] {
        let answer = if filter::install().is_ok() { INSTALLED } else { FAILED };
        let _ = output.write_all(&[answer]);
    }
    if input.read_exact(&mut order).is_err() {
        end(1);
    }
    drop((input, output));
    end(execute())
}

fn end(status: u8) -> ! {
    // SAFETY: nothing runs after it.
    unsafe { libc::_exit(status.into()) }
}

/// Closes the tracer's standard descriptors, so that a reader of the program's output sees its end.
fn close_standard() {
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        use std::os::fd::AsRawFd;
        for number in 0..3 {
            // SAFETY: this process has no other use of its standard descriptors.
            unsafe { libc::dup2(null.as_raw_fd(), number) };
        }
    }
}

/// Returns both ends of a pipe; programs don't inherit them.
fn pipe() -> io::Result<(File, File)> {
    let mut ends = [0; 2];
    // SAFETY: it writes to `ends` alone.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both are new, so nothing else closes them.
    let [from, to] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
    Ok((from.into(), to.into()))
}
