//! The process `headwater supervise`.

use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;

use headwater_daemon::{Control, log_to_stderr, process};

use crate::config::SupervisorConfig;
use crate::supervise::{Supervisor, print};

/// The process `headwater supervise`: reads a [`SupervisorConfig`] as one line of JSON from standard
/// input, mounts, starts the daemon, and keeps the mount answered until standard input says `stop` or
/// ends. After the line `detach` the end of standard input is nothing. Standard output gets what the
/// daemon says: `{"ready":true}` and, at the end, its [`Report`](headwater_daemon::Report); or
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
            if !print(&serde_json::json!({ "failed": why })) {
                tracing::error!("the supervisor ends: {why}");
            }
            ExitCode::FAILURE
        }
    }
}
