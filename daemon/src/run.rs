//! The process `headwater daemon`.

use std::io::{self, Write as _};
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use headwater_reader::Opened;
use rustix::fs::FileType;

use crate::config::Config;
use crate::control::Control;
use crate::error::DaemonError;
use crate::event_loop::serve;
use crate::log::log_to_stderr;
use crate::process::{catch_signals, inherited, inherited_file, inherited_listener, raise_limits, settle};

/// The process `headwater daemon`. Reads a [`Config`] as one line of JSON from standard input, and serves until
/// standard input has `stop` or ends, or until SIGTERM. Writes `{"ready":true}` to standard output and, unless standard
/// input has ended, a [`Report`](crate::Report); or `{"failed":"why"}`.
///
/// Call it before any thread is started. It logs to standard error as `HEADWATER_LOG` configures.
pub fn run_from_stdio() -> ExitCode {
    log_to_stderr();
    match run_process() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The starter knows the effect on the programs, and informs the user.
            let failed = serde_json::json!({ "failed": error.to_string() });
            if writeln!(io::stdout(), "{failed}").is_err() {
                tracing::error!("the daemon ends: {error}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Runs a daemon in this process, on `listeners` instead of the configuration's descriptors, until `lifeline` has `stop`
/// or ends. `output` replaces standard output.
pub fn run(
    config: &Config,
    listeners: Vec<TcpListener>,
    lifeline: OwnedFd,
    output: &mut dyn io::Write,
) -> Result<(), DaemonError> {
    serve(config, listeners, Opened::default(), Control::new(lifeline), None, output)
}

fn run_process() -> Result<(), DaemonError> {
    let system = |what| move |source: io::Error| DaemonError::System { what, source };
    settle();
    raise_limits();
    let termination = catch_signals().map_err(system("catch signals"))?;
    let input = io::stdin().as_fd().try_clone_to_owned().map_err(system("use standard input"))?;
    let (config, mut control): (Config, _) =
        Control::start(input).map_err(system("read a configuration from standard input"))?;
    if let Some(number) = config.lifeline_fd {
        control = control.owned_by(inherited(number, FileType::Fifo).map_err(system("use the inherited lifeline"))?);
    }
    let listeners: io::Result<Vec<TcpListener>> = config.listener_fds().map(inherited_listener).collect();
    let listeners = listeners.map_err(system("use the inherited sockets"))?;
    let opened = config.opened.iter().filter_map(|(path, number)| inherited_file(path, *number).ok()).collect();
    // Content is reached by this descriptor's number, so it stays open.
    let disk = config.disk.as_ref().map(|disk| inherited(disk.fd, FileType::Directory)).transpose();
    let _disk = disk.map_err(system("use the inherited disk"))?;
    serve(&config, listeners, opened, control, Some(termination), &mut io::stdout().lock())
}
