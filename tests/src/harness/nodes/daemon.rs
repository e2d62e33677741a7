//! One daemon on a node, as the process that a launcher starts.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use headwater_cluster::Node;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::network::in_network_of;
use crate::harness::session::headwater_binary;
use crate::harness::wait_until;

/// The descriptor that a daemon finds its listening socket at.
pub(super) const LISTENER: i32 = 9;
/// A node that comes back gets its port as soon as the kernel has let go of it.
const BIND_MAX: Duration = Duration::from_secs(5);
/// How long a stopped or killed process may take.
const SIGNAL_MAX: Duration = Duration::from_secs(5);

/// A daemon. Dropped, it is killed.
pub(super) struct Daemon {
    /// `nsenter`, whose child it is.
    entered: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    pub(super) is_paused: bool,
    is_ready: bool,
}

impl Daemon {
    /// Starts it. What it logs goes to the file `log` of its node.
    pub(super) fn start(node: &Node, address: SocketAddr, config: &Value, log: &str) -> Daemon {
        let listener = bind(node, address);
        // The socket travels as standard error, which nobody else can inherit by accident.
        let script = format!("exec {LISTENER}>&2 2>>\"$1\"; exec \"$0\" daemon");
        // Its standard input ends with this process, and so does it: it needs nothing more to be ended by.
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--target={}", node.holder.pid))
            .args(["--net", "--mount", "--uts", "--ipc", "--pid", "--"]);
        command
            .args(["sh", "-c", &script])
            .arg(headwater_binary())
            .arg(log)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        command.env("HEADWATER_LOG", std::env::var("HEADWATER_LOG").unwrap_or_else(|_| "info".into()));
        let mut entered =
            command.stderr(Stdio::from(OwnedFd::from(listener))).spawn().expect("nsenter comes with util-linux");
        let mut input = entered.stdin.take().expect("it is a pipe");
        // One that has just died says so by not being ready.
        let _ = writeln!(input, "{config}");
        let output = BufReader::new(entered.stdout.take().expect("it is a pipe"));
        Daemon { entered, input: Some(input), output, is_paused: false, is_ready: false }
    }

    /// Waits for its first line, if that has not been heard yet.
    pub(super) fn await_ready(&mut self, time_max: Duration) -> Result<(), String> {
        if !self.is_ready {
            let line = self.line(time_max)?;
            self.is_ready = line.contains(r#""ready":true"#);
            if !self.is_ready {
                return Err(format!("it says {line:?}"));
            }
        }
        Ok(())
    }

    /// Tells it to end.
    pub(super) fn tell_to_stop(&mut self) {
        if let Some(input) = &mut self.input {
            let _ = input.write_all(b"stop\n");
        }
    }

    /// Its last line, and its end.
    pub(super) fn report(&mut self, time_max: Duration) -> Value {
        let line = self.line(time_max).unwrap_or_else(|problem| panic!("no report: {problem}"));
        let ended = wait_until(time_max, || !matches!(self.entered.try_wait(), Ok(None)));
        assert!(ended, "a daemon that was told to stop is still there");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    /// Kills it, and returns when it is gone.
    pub(super) fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.resume();
        let _ = self.entered.wait();
    }

    /// Stops it: it lives, its connections stand, and it says nothing. Returns when it has stopped.
    pub(super) fn pause(&mut self) {
        self.is_paused = true;
        self.signal(Signal::STOP);
        let stopped = wait_until(SIGNAL_MAX, || self.pid().is_some_and(|pid| state_of(pid.as_raw_pid()) == Some('T')));
        assert!(stopped, "a daemon does not stop");
    }

    /// Lets it go on.
    pub(super) fn resume(&mut self) {
        self.is_paused = false;
        self.signal(Signal::CONT);
        // `nsenter` stops with its child.
        let _ = kill_process(Pid::from_child(&self.entered), Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            let _ = kill_process(pid, signal);
        }
    }

    /// Its process, as this one's namespace numbers it.
    fn pid(&self) -> Option<Pid> {
        let parent = self.entered.id().to_string();
        let numbers =
            fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_child = |pid: &i32| fields_of(*pid).is_some_and(|fields| fields.get(1) == Some(&parent));
        numbers.filter(|pid| is_child(pid)).find_map(Pid::from_raw)
    }

    fn line(&mut self, time_max: Duration) -> Result<String, String> {
        if self.output.buffer().is_empty() {
            let time_max = Timespec::try_from(time_max).expect("it is short");
            match poll(&mut [PollFd::new(self.output.get_ref(), PollFlags::IN)], Some(&time_max)) {
                Ok(0) => return Err("nothing came in time".into()),
                Ok(_) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        // It writes whole lines.
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err("it ended without a word".into()),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.input = None;
        if matches!(self.entered.try_wait(), Ok(None)) {
            self.kill();
        }
    }
}

fn bind(node: &Node, address: SocketAddr) -> TcpListener {
    let deadline = Instant::now() + BIND_MAX;
    loop {
        match in_network_of(node, || TcpListener::bind(address)) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            bound => return bound.unwrap_or_else(|e| panic!("{address} on {}: {e}", node.name)),
        }
    }
}

fn state_of(pid: i32) -> Option<char> {
    fields_of(pid)?.first()?.chars().next()
}

/// The fields of `/proc/PID/stat` from the third on: state, parent, …
fn fields_of(pid: i32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(") ")?.1.split(' ').take(2).map(str::to_owned).collect())
}
