//! The process `headwater supervise`.

use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;

use headwater_daemon::{Control, log_to_stderr, process};

use crate::config::SupervisorConfig;
use crate::supervise::{Supervisor, print};

/// The process `headwater supervise`. Reads a [`SupervisorConfig`] as one line of JSON from standard input, mounts,
/// starts the daemon, and keeps the mount served until standard input has `stop` or ends. After the line `detach`, the
/// end of standard input is ignored. Writes the daemon's output to standard output: `{"ready":true}` and, at the end,
/// its [`Report`](headwater_daemon::Report); or `{"failed":"why"}`. If processes still use the mount after that, writes
/// `{"lingers":true}` and ends with the last of them.
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
            if !print(&serde_json::json!({ "failed": why }).to_string()) {
                tracing::error!("the supervisor ends: {why}");
            }
            ExitCode::FAILURE
        }
    }
}
