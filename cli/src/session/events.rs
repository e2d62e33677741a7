//! Events that a command waits for.

use std::fmt;
use std::time::Instant;

use headwater_daemon::SessionId;
use libc::c_int;
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGURG, SIGWINCH};

use crate::rendezvous::events::NodeEvent;

/// An event.
#[derive(Debug)]
pub enum Event {
    /// A signal arrived.
    Signal(Signal),
    /// A daemon wrote a line, or has ended.
    Daemon(DaemonOutput),
    /// The state of a job's node changed.
    Node(NodeEvent),
}

impl Event {
    /// Returns an interruption if this is a signal that ends programs.
    pub fn interrupts(&self) -> Option<Interrupted> {
        match self {
            Event::Signal(signal) if signal.ends() => Some(Interrupted(signal.number)),
            _ => None,
        }
    }
}

/// A signal that ends programs arrived before the program was started.
#[derive(Debug)]
pub struct Interrupted(pub i32);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "signal {} arrived before the program was started", self.0)
    }
}

impl std::error::Error for Interrupted {}

/// A line of a daemon's output, or its end.
#[derive(Debug)]
pub struct DaemonOutput {
    /// Its session. An earlier attempt may have had another one.
    pub session: SessionId,
    /// The daemon's number.
    pub node: usize,
    /// A line; `None` at the end.
    pub line: Option<String>,
}

/// A signal to this process.
#[derive(Clone, Copy, Debug)]
pub struct Signal {
    /// Its number.
    pub number: c_int,
    /// Whether the kernel sent it: for the terminal, a timer or a limit.
    pub from_kernel: bool,
    /// The time of arrival.
    pub at: Instant,
}

impl Signal {
    /// Returns whether its default action ends a program.
    pub fn ends(self) -> bool {
        !matches!(self.number, SIGCHLD | SIGCONT | SIGTSTP | SIGURG | SIGWINCH)
    }

    /// Returns whether the whole foreground group has received it, as for a key of the terminal. Timers and limits are this
    /// process's alone.
    pub fn is_of_terminal(self) -> bool {
        self.from_kernel && matches!(self.number, SIGHUP | SIGINT | SIGQUIT | SIGTSTP | SIGCONT | SIGWINCH)
    }

    /// Returns whether it reports a change of a child process.
    pub fn is_child(self) -> bool {
        self.number == SIGCHLD
    }

    /// Returns whether its default action stops a program.
    pub fn stops(self) -> bool {
        self.number == SIGTSTP
    }

    /// Returns whether it continues a stopped program.
    pub fn continues(self) -> bool {
        self.number == SIGCONT
    }
}
