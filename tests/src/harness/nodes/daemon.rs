//! One daemon on a node, as the process that a launcher starts.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use headwater_cluster::Node;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

use super::network::{namespace, on};
use crate::harness::session::headwater_binary;
use crate::harness::wait_until;

/// A node that returns gets its port as soon as the kernel has released it.
const BIND_MAX: Duration = Duration::from_secs(5);
/// How long a stopped or killed process may take.
const SIGNAL_MAX: Duration = Duration::from_secs(5);

/// A daemon. Dropped, it is killed.
pub(super) struct Daemon {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    pub(super) is_paused: bool,
    is_ready: bool,
}

impl Daemon {
    /// Starts it. Its log is written to the file `log`, as this process sees it. Its configuration contains the sockets
    /// that it listens at.
    pub(super) fn start(
        node: &Node,
        addresses: &[SocketAddr],
        config: impl FnOnce(&[RawFd]) -> Value,
        log: &Path,
    ) -> Daemon {
        let mounts = namespace(node, "mnt").unwrap_or_else(|e| panic!("the mounts of {}: {e}", node.name));
        let log = File::options().append(true).create(true).open(log).expect("the session's directory is there");
        let start = || {
            let listeners: Vec<TcpListener> = addresses.iter().map(|address| bind(node, *address)).collect();
            // Its standard input ends with this process, and so does it: it needs nothing more to be ended by.
            let mut command = Command::new(headwater_binary());
            command.arg("daemon").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
            command.env("HEADWATER_LOG", std::env::var("HEADWATER_LOG").unwrap_or_else(|_| "info".into()));
            let passed: Vec<RawFd> = listeners.iter().map(AsRawFd::as_raw_fd).collect();
            let enter = move || {
                listeners.iter().try_for_each(|listener| fcntl_setfd(listener, FdFlags::empty()))?;
                Ok(move_into_link_name_space(mounts.as_fd(), Some(LinkNameSpaceType::Mount))?)
            };
            // SAFETY: between fork and exec `enter` makes some system calls on descriptors that it owns, and
            // neither allocates nor takes a lock.
            unsafe { command.pre_exec(enter) };
            (command.spawn().unwrap_or_else(|e| panic!("{}: {e}", headwater_binary().display())), passed)
        };
        let (mut process, listeners) = on(node, start);
        let mut input = process.stdin.take().expect("it is a pipe");
        // That a daemon has just died shows as it does not become ready.
        let _ = writeln!(input, "{}", config(&listeners));
        let output = BufReader::new(process.stdout.take().expect("it is a pipe"));
        Daemon { process, input: Some(input), output, is_paused: false, is_ready: false }
    }

    /// Waits for its first line, if that has not been read yet.
    pub(super) fn await_ready(&mut self, time_max: Duration) -> Result<(), String> {
        if !self.is_ready {
            let line = self.line(time_max)?;
            self.is_ready = line.contains(r#""ready":true"#);
            if !self.is_ready {
                return Err(format!("it prints {line:?}"));
            }
        }
        Ok(())
    }

    /// Requests its end.
    pub(super) fn request_stop(&mut self) {
        if let Some(input) = &mut self.input {
            let _ = input.write_all(b"stop\n");
        }
    }

    /// Its last line, and its end.
    pub(super) fn report(&mut self, time_max: Duration) -> Value {
        let line = self.line(time_max).unwrap_or_else(|problem| panic!("no report: {problem}"));
        let ended = wait_until(time_max, || !matches!(self.process.try_wait(), Ok(None)));
        assert!(ended, "a daemon that was requested to stop is still there");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    /// Kills it, and returns after its end.
    pub(super) fn kill(&mut self) {
        let _ = self.process.kill();
        self.await_end();
    }

    /// Returns after its end, whatever the cause.
    pub(super) fn await_end(&mut self) {
        let _ = self.process.wait();
    }

    /// Stops it: it lives, its connections stay open, and it sends nothing. Returns when it has stopped.
    pub(super) fn pause(&mut self) {
        self.is_paused = true;
        self.signal(Signal::STOP);
        let stopped = wait_until(SIGNAL_MAX, || state_of(self.process.id()) == Some('T'));
        assert!(stopped, "a daemon does not stop");
    }

    /// Lets it continue.
    pub(super) fn resume(&mut self) {
        self.is_paused = false;
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.process), signal);
    }

    fn line(&mut self, time_max: Duration) -> Result<String, String> {
        if self.output.buffer().is_empty() {
            let time_max = Timespec::try_from(time_max).expect("it is short");
            match poll(&mut [PollFd::new(self.output.get_ref(), PollFlags::IN)], Some(&time_max)) {
                Ok(0) => return Err("nothing arrived in time".into()),
                Ok(_) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        // It writes whole lines.
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err("it ended without output".into()),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.input = None;
        if matches!(self.process.try_wait(), Ok(None)) {
            self.kill();
        }
    }
}

fn bind(node: &Node, address: SocketAddr) -> TcpListener {
    let deadline = Instant::now() + BIND_MAX;
    loop {
        match TcpListener::bind(address) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            bound => return bound.unwrap_or_else(|e| panic!("{address} on {}: {e}", node.name)),
        }
    }
}

/// A process's state, as `/proc/PID/stat` has it.
fn state_of(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}
