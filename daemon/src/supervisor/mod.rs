//! The supervisor: it holds a mounted file system's connection, and starts the daemon that serves it,
//! again and again if need be.
//!
//! It opens the device, mounts, and comes to terms with the kernel; the daemon inherits the
//! connection's descriptors. While one process has them open, the kernel keeps every request: a daemon
//! that takes over has those sent again that its predecessor left unanswered. If no daemon comes up
//! any more, the supervisor answers from the originals itself.
//!
//! It has one thread and does little, so that little can go wrong with it.

mod abandoned;
mod child;
pub mod client;
mod config;
pub mod measure;
mod mounting;
pub mod namespace;
mod ownserver;
mod restarts;
mod socket;
mod stale;
mod supervise;

use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;

pub use self::config::{MountVia, NamespaceVia, SupervisorConfig, Via, WORKERS_DEFAULT};
pub use self::stale::{remove_mounts_below, remove_stale, stale_mounts};
use self::supervise::Supervisor;
use crate::control::Control;
use crate::log::log_to_stderr;
use crate::process;

/// The process `headwater supervise`: reads a [`SupervisorConfig`] as one line of JSON from standard
/// input, mounts, starts the daemon, and keeps the mount answered until standard input says `stop` or
/// ends. After the line `detach` the end of standard input is nothing. Standard output gets what the
/// daemon says: `{"ready":true}` and, at the end, its [`Report`](crate::Report); or
/// `{"failed":"why"}`. If processes still use the mount after that, `{"lingers":true}` follows, and the
/// process goes when they have left.
///
/// Call it before any thread is started.
pub fn supervise_from_stdio() -> ExitCode {
    log_to_stderr();
    process::settle();
    let start =
        || -> io::Result<(SupervisorConfig, Control)> { Control::start(io::stdin().as_fd().try_clone_to_owned()?) };
    let result = match start() {
        Ok((config, control)) => Supervisor::start(config, control).and_then(Supervisor::run),
        Err(error) => Err(format!("the supervisor can't read a configuration from standard input: {error}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            if !supervise::tell(&serde_json::json!({ "failed": why })) {
                tracing::error!("the supervisor ends: {why}");
            }
            ExitCode::FAILURE
        }
    }
}
