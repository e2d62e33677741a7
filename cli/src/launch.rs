//! Starts the program's processes by `headwater exec`, and waits for them.
//!
//! `exec` is started without variables of the dynamic loader, so it does not search the user's library directories for
//! its own libraries. The variables are carried under other names, and restored for the program.
//!
//! Each process has the kernel kill it when this one dies: by `SIGKILL`, since no process may survive its job step.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result};
use rustix::process::Pid;

use crate::io::options::IoOptions;
use crate::options::inner::TraceOptions;
use crate::process::{self, inherited};
use crate::rendezvous::messages::NodeAccess;
use crate::self_exec;
use crate::status::{Ending, FAILURE};
use crate::via::prefix;
use crate::warm::options::RankOptions;

/// The variable with the session's name.
pub const SESSION: &str = "HEADWATER_SESSION";
/// The variable with the node's table.
pub const TABLE: &str = "HEADWATER_TABLE";
/// The variable with the node's mount, if the program uses paths below it.
pub const MOUNT: &str = "HEADWATER_MOUNT";
/// Prefix of a carried variable's name.
pub const CARRIED: &str = "HEADWATER_CARRIED_";

/// A program to start.
#[derive(Debug)]
pub struct Launch<'a> {
    /// The program and its arguments.
    pub program: &'a [OsString],
    /// The nodes that run it, ascending.
    pub nodes: &'a [u32],
    /// The number of nodes, including servers.
    pub nodes_total: u32,
    /// Processes on each.
    pub ppn: u32,
    /// How they are made.
    pub ranks: &'a RankOptions,
    /// Options of the I/O library.
    pub io: &'a IoOptions,
    /// How the first process is traced.
    pub trace: Option<&'a TraceOptions>,
    /// The session's name, and how each node's processes find its daemon; without it the program runs without Headwater.
    pub session: Option<(String, Vec<NodeAccess>)>,
}

/// The processes of a program.
#[derive(Debug, Default)]
pub struct Processes {
    running: Vec<Child>,
    ended: Vec<ExitStatus>,
}

impl Launch<'_> {
    /// Starts all processes, in the order of their ranks. A node's processes have adjacent ranks.
    pub fn start(&self) -> Result<Processes> {
        let mut processes = Processes::default();
        for rank in 0..self.processes() {
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

    fn processes(&self) -> u32 {
        self.nodes.len() as u32 * self.ppn
    }

    fn command(&self, rank: u32) -> Command {
        let node = self.nodes[(rank / self.ppn) as usize];
        let mut command = self_exec::command();
        command.args(["exec", "--parent", &std::process::id().to_string()]);
        for name in loader_variables() {
            command.env(carried(&name), std::env::var_os(&name).unwrap_or_default()).env_remove(name);
        }
        command.env_remove(SESSION).env_remove(TABLE).env_remove(MOUNT);
        let mut program = self.program[0].clone();
        if let Some((session, access)) = &self.session {
            command.env(SESSION, session);
            program = attach(&access[node as usize], &program, &mut command).unwrap_or(program);
        }
        for (name, value) in [
            ("HEADWATER_NODE", node),
            ("HEADWATER_NODES", self.nodes_total),
            ("HEADWATER_RANK", rank),
            ("HEADWATER_RANKS", self.processes()),
        ] {
            command.env(name, value.to_string());
        }
        let arguments = self.ranks.arguments();
        let reports = !arguments.is_empty() && rank.is_multiple_of(self.ppn);
        command.args(arguments).args(reports.then_some("--reports"));
        let trace = self.trace.filter(|_| rank == 0 && self.ranks.arguments().is_empty());
        command.args(trace.map(TraceOptions::arguments).unwrap_or_default());
        // The program may start further ranks without the library.
        command.args(self.io.arguments(false));
        if rank > 0 {
            command.stdin(Stdio::null());
        }
        command.arg("--").arg(program).args(&self.program[1..]);
        inherited::pass_on(&mut command);
        command
    }
}

/// Adds arguments and variables of `exec`; returns the program to execute instead, if it differs.
fn attach(access: &NodeAccess, program: &OsStr, command: &mut Command) -> Option<OsString> {
    match access {
        NodeAccess::Audit { table, library } => {
            command.arg("--audit").arg(library).env(TABLE, table);
        }
        NodeAccess::Enter { supervisor } => {
            command.arg("--enter").arg(supervisor);
        }
        NodeAccess::Plain => {}
        NodeAccess::Mount { view, scope } => {
            let (program, variables) = prefix::translated(program, view, scope.clone());
            command.env(MOUNT, view);
            for (name, value) in variables {
                command.env(if is_loader_variable(&name) { carried(&name) } else { name }, value);
            }
            return program;
        }
    }
    None
}

impl Processes {
    /// Returns a set with one process.
    pub fn of(child: Child) -> Processes {
        Processes { running: vec![child], ended: Vec::new() }
    }

    /// Reaps ended processes. Returns whether all have ended.
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
        // A PID is not reused before the process is reaped.
        self.running.iter().for_each(|child| process::kill(Pid::from_child(child), number));
    }

    /// Returns whether there are processes and all are stopped.
    pub fn are_stopped(&self) -> bool {
        let state = |child: &Child| {
            let status = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
            status.rsplit_once(") ")?.1.chars().next()
        };
        !self.running.is_empty() && self.running.iter().all(|child| state(child) == Some('T'))
    }

    /// Returns how the processes ended: as one of them if all ended alike, or by the highest exit status, as `srun` does.
    pub fn ending(&self) -> Ending {
        let mut endings = self.ended.iter().map(|&status| Ending::from(status));
        let Some(first) = endings.next() else { return FAILURE.into() };
        let join = |some: Ending, other: Ending| if some == other { some } else { some.code.max(other.code).into() };
        endings.fold(first, join)
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

/// Returns the names of the dynamic loader's variables.
pub fn loader_variables() -> impl Iterator<Item = OsString> {
    let names = std::env::vars_os().map(|(name, _)| name);
    names.filter(|name| is_loader_variable(name))
}

fn is_loader_variable(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"LD_") || name == "GLIBC_TUNABLES"
}

fn carried(name: &OsStr) -> OsString {
    OsString::from_vec([CARRIED.as_bytes(), name.as_bytes()].concat())
}
