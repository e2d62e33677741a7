//! Runs a program and reports what its processes do with the file system: system calls with their paths, times and
//! results.
//!
//! The program is traced by ptrace, by a process of its own, the *tracer*. It is the program's parent and reports by
//! a pipe, so the process that called [`start`] can end with the program while children of the program run on.
//!
//! A seccomp filter stops processes at calls about files alone. A filter can't be removed: where tracing is to end
//! before the program does ([`Options::until`]), processes stop at each call instead, and are released then. They do so
//! as well where a filter would take privileges from programs: then a process is released before it executes a file
//! that gives privileges, or when another process of the program is to trace it.
//!
//! Where a program can't be traced, it runs untraced, and [`Message::Untraced`] gives the reason.

mod affinity;
mod call;
mod clock;
mod filter;
mod memory;
mod messages;
mod privileges;
mod processes;
mod request;
mod signals;
mod start;

pub use self::messages::{Message, Refusal};
pub use self::privileges::gives_privileges;
pub use self::start::{Options, Traced, start};
