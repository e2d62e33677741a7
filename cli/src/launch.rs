//! The program's processes: starting them through `headwater exec`, and what becomes of them.
//!
//! `exec` is started without the variables that steer the dynamic loader, lest each of its processes
//! search the user's library directories for its own libraries; they travel under other names and
//! are put back for the program.
//!
//! Processes end with this one: each has itself killed when its parent dies. `SIGKILL`, since a job
//! step that is gone must not be survived by what ignores a milder signal.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result};
use rustix::process::Pid;

use crate::daemons::own_executable;

/// Names the session, in each of its processes.
pub const SESSION: &str = "HEADWATER_SESSION";
/// Names the node's table.
pub const TABLE: &str = "HEADWATER_TABLE";
/// Before the name of a variable that `exec` puts back.
pub const CARRIED: &str = "HEADWATER_CARRIED_";

/// What a node's processes need to find its daemon.
#[derive(Debug)]
pub struct Attachment {
    /// The node's table.
    pub table: PathBuf,
    /// The node's copy of the audit library.
    pub audit: PathBuf,
}

/// How processes are started.
#[derive(Debug)]
pub struct Launch<'a> {
    /// The program and its arguments.
    pub program: &'a [OsString],
    /// How many nodes there are.
    pub nodes: u32,
    /// Processes on each.
    pub ppn: u32,
    /// The session's name, and each node's attachment; without it the program runs as it is.
    pub session: Option<(String, Vec<Attachment>)>,
}

/// The processes of a program.
#[derive(Debug, Default)]
pub struct Processes {
    running: Vec<Child>,
    ended: Vec<ExitStatus>,
}

impl Launch<'_> {
    /// Starts all processes, in the order of their ranks; the ones of a node have adjacent ranks.
    pub fn start(&self) -> Result<Processes> {
        let mut processes = Processes::default();
        for rank in 0..self.nodes * self.ppn {
            match self.command(rank).spawn() {
                Ok(child) => processes.running.push(child),
                Err(e) => {
                    processes.kill();
                    return Err(e).context(format!("process {rank} can't be started"));
                }
            }
        }
        Ok(processes)
    }

    fn command(&self, rank: u32) -> Command {
        let node = rank / self.ppn;
        let mut command = Command::new(own_executable());
        command.arg0("headwater").args(["exec", "--parent", &std::process::id().to_string()]);
        for name in loader_variables() {
            let carried = [CARRIED.as_bytes(), name.as_bytes()].concat();
            command.env(OsStr::from_bytes(&carried), std::env::var_os(&name).unwrap_or_default()).env_remove(name);
        }
        command.env_remove(SESSION).env_remove(TABLE);
        if let Some((session, attachments)) = &self.session {
            let attachment = &attachments[node as usize];
            command.arg("--audit").arg(&attachment.audit);
            command.env(SESSION, session).env(TABLE, &attachment.table);
        }
        for (name, value) in [
            ("HEADWATER_NODE", node),
            ("HEADWATER_NODES", self.nodes),
            ("HEADWATER_RANK", rank),
            ("HEADWATER_RANKS", self.nodes * self.ppn),
        ] {
            command.env(name, value.to_string());
        }
        if rank > 0 {
            command.stdin(Stdio::null());
        }
        command.arg("--").args(self.program);
        command
    }
}

impl Processes {
    /// Notes which processes have ended. True once all have.
    pub fn reap(&mut self) -> bool {
        self.running.retain_mut(|child| match child.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) => {
                self.ended.push(status);
                false
            }
            Err(_) => false,
        });
        self.running.is_empty()
    }

    /// Sends a signal to every process that has not ended.
    pub fn signal(&self, number: i32) {
        let Some(signal) = rustix::process::Signal::from_named_raw(number) else { return };
        for child in &self.running {
            // One that has just ended is reaped soon; its number is not used again before.
            let _ = rustix::process::kill_process(Pid::from_child(child), signal);
        }
    }

    /// True if there are processes and all of them are stopped.
    pub fn are_stopped(&self) -> bool {
        let state = |child: &Child| {
            let status = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
            status.rsplit_once(") ")?.1.chars().next()
        };
        !self.running.is_empty() && self.running.iter().all(|child| state(child) == Some('T'))
    }

    /// The exit status of all: the highest, as `srun` has it; 128 + n for a process that signal n
    /// ended.
    pub fn status(&self) -> u8 {
        let status = |s: &ExitStatus| s.code().unwrap_or_else(|| 128 + s.signal().unwrap_or(0));
        self.ended.iter().map(status).max().map_or(crate::FAILURE, |highest| highest as u8)
    }

    fn kill(&mut self) {
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.running.clear();
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The names of the variables that steer the dynamic loader.
pub fn loader_variables() -> impl Iterator<Item = OsString> {
    let names = std::env::vars_os().map(|(name, _)| name);
    names.filter(|name| name.as_bytes().starts_with(b"LD_") || name == "GLIBC_TUNABLES")
}
