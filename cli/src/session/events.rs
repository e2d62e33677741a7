//! What a command waits for.

use std::fmt;
use std::time::Instant;

use headwater_daemon::SessionId;
use libc::c_int;
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGTSTP, SIGWINCH};

use crate::rendezvous::events::NodeEvent;

/// What `run` waits for.
#[derive(Debug)]
pub enum Event {
    /// A signal came.
    Signal(Signal),
    /// A daemon said something, or has ended.
    Daemon(DaemonOutput),
    /// Something became of a node of a job.
    Node(NodeEvent),
}

impl Event {
    /// Says so if this is a signal that ends programs.
    pub fn interrupts(&self) -> Option<Interrupted> {
        match self {
            Event::Signal(signal) if signal.ends() => Some(Interrupted(signal.number)),
            _ => None,
        }
    }
}

/// A signal that ends programs came before the program was started.
#[derive(Debug)]
pub struct Interrupted(pub i32);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "signal {} came before the program was started", self.0)
    }
}

impl std::error::Error for Interrupted {}

/// What a daemon said, or that nothing more comes from it.
#[derive(Debug)]
pub struct DaemonOutput {
    /// Its session. Another one may have failed before, or another daemon in it.
    pub session: SessionId,
    /// Its node's number.
    pub node: usize,
    /// A line; `None` at the end.
    pub line: Option<String>,
}

/// A signal that came to this process.
#[derive(Clone, Copy, Debug)]
pub struct Signal {
    /// Its number.
    pub number: c_int,
    /// True if the kernel sent it, as it does for keys of the terminal: then the whole foreground
    /// group has it already, the processes too.
    pub from_kernel: bool,
    /// When it came.
    pub at: Instant,
}

impl Signal {
    /// True if a program that does nothing about it ends.
    pub fn ends(self) -> bool {
        !matches!(self.number, SIGCHLD | SIGCONT | SIGTSTP | SIGWINCH)
    }

    /// True if it tells that a child process has changed.
    pub fn is_child(self) -> bool {
        self.number == SIGCHLD
    }

    /// True if a program that does nothing about it stops.
    pub fn stops(self) -> bool {
        self.number == SIGTSTP
    }

    /// True if it tells a stopped program to go on.
    pub fn continues(self) -> bool {
        self.number == SIGCONT
    }
}
