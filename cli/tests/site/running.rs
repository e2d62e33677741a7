//! A running `headwater run`.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};

use rustix::process::{Pid, Signal, kill_process};

use super::{Site, TIMEOUT, processes_with};

/// A running `headwater run` whose processes have printed `ready`.
pub struct Running {
    pub child: Child,
    pub output: BufReader<ChildStdout>,
    _watchdog: Watchdog,
}

/// Kills a process after a timeout, so that its test fails instead of hanging.
pub struct Watchdog(#[expect(dead_code, reason = "dropped to call the thread off")] Sender<()>);

impl Watchdog {
    fn over(child: &Child) -> Watchdog {
        let pid = Pid::from_child(child);
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            if receiver.recv_timeout(TIMEOUT) == Err(RecvTimeoutError::Timeout) {
                let _ = kill_process(pid, Signal::KILL);
            }
        });
        Watchdog(sender)
    }
}

impl Running {
    pub fn start(mut command: Command, processes: usize) -> Running {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let watchdog = Watchdog::over(&child);
        let mut output = BufReader::new(child.stdout.take().unwrap());
        for _ in 0..processes {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            assert_eq!(line, "ready\n");
        }
        Running { child, output, _watchdog: watchdog }
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end; returns the exit status, and the output since it was ready.
    pub fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }

    /// Waits for the end of its output, and returns the signal that ended it.
    pub fn ended_by(mut self) -> Option<i32> {
        std::io::copy(&mut self.output, &mut std::io::sink()).unwrap();
        self.child.wait().unwrap().signal()
    }
}

/// Returns the processes of a site's sessions that run this subcommand of headwater.
pub fn processes_called(site: &Site, subcommand: &str) -> Vec<Pid> {
    let start = format!("headwater\0{subcommand}\0");
    let is_called =
        |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(start.as_bytes()));
    let found = processes_with(&site.path("store")).into_iter().filter(is_called);
    found.map(|pid| Pid::from_raw(pid as i32).unwrap()).collect()
}
