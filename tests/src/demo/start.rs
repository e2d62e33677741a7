//! One start of the program by several processes at once, plain or with Headwater.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::counting_fs::{Caching, Mounted};

/// The most nodes; more processes share them.
pub const NODES_MAX: usize = 4;
/// Operations in a second that the file server handles, one at a time.
pub const OPERATIONS_PER_SECOND: u64 = 1000;

/// What is started.
#[derive(Clone, Debug)]
pub struct Demo {
    /// The command.
    pub headwater: PathBuf,
    /// The directory with `bin/python3`, its library, and `start.py`.
    pub software: PathBuf,
}

/// What a start took.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Until all processes have ended; with Headwater the session's start and end included.
    pub seconds: f64,
    /// What the file server did.
    pub operations: u64,
}

impl Demo {
    /// Starts so many processes without Headwater: each node has a mount of its own, with the kernel's caches of it.
    pub fn plain(&self, processes: usize) -> Result<Start, String> {
        let nodes = processes.min(NODES_MAX);
        let mut server = self.server(nodes)?;
        let begin = Instant::now();
        let started = (0..processes).map(|process| {
            let mount = &server.mounts()[process % nodes];
            spawn(Command::new(python(mount)).args(arguments(mount)))
        });
        for running in started.collect::<Vec<_>>() {
            finish(running?)?;
        }
        Ok(Start { seconds: begin.elapsed().as_secs_f64(), operations: operations(&mut server) })
    }

    /// Starts so many processes with Headwater, by this mechanism. Returns the session's summary, too. It is an error
    /// if Headwater didn't serve the program.
    pub fn with_headwater(&self, processes: usize, via: &str) -> Result<(Start, Value), String> {
        let mut server = self.server(1)?;
        let begin = Instant::now();
        let summary = self.session(server.path(), processes, &["--no-summary", "--via", via])?;
        Ok((Start { seconds: begin.elapsed().as_secs_f64(), operations: operations(&mut server) }, summary))
    }

    /// Starts so many processes with Headwater from the local disk, and prints the session's summary.
    pub(super) fn with_headwater_locally(&self, processes: usize) -> Result<(), String> {
        self.session(&self.software, processes, &["--summary"]).map(drop)
    }

    /// Runs a session, and returns its summary.
    fn session(&self, shared: &Path, processes: usize, options: &[&str]) -> Result<Value, String> {
        let nodes = processes.min(NODES_MAX);
        let files = crate::scratch("demo");
        let summary = files.path().join("summary.json");
        let mut command = Command::new(&self.headwater);
        command.args(["run", "--nodes", &nodes.to_string(), "--ppn", &(processes / nodes).to_string()]);
        command.args(options).arg("--summary-json").arg(&summary).arg("--shared").arg(shared);
        finish(spawn(command.arg("--").arg(python(shared)).args(arguments(shared)))?)?;
        let text = fs::read(&summary).map_err(|e| format!("{}: {e}", summary.display()))?;
        let summary = serde_json::from_slice(&text).map_err(|e| format!("the summary: {e}"))?;
        check_served(&summary, processes)?;
        Ok(summary)
    }

    /// The slow file server, with this many mounts.
    pub(super) fn server(&self, nodes: usize) -> Result<Mounted, String> {
        let mut server = Mounted::new(&self.software, nodes, Caching::USUAL)?;
        server.set_rate(OPERATIONS_PER_SECOND);
        Ok(server)
    }
}

fn python(mount: &Path) -> PathBuf {
    mount.join("bin/python3")
}

/// The program's arguments. Python ignores the user's settings and writes nothing.
fn arguments(mount: &Path) -> [PathBuf; 2] {
    ["-IB".into(), mount.join("start.py")]
}

fn spawn(command: &mut Command) -> Result<(Child, String), String> {
    let shown = format!("{command:?}");
    match command.stdin(Stdio::null()).stdout(Stdio::null()).spawn() {
        Ok(child) => Ok((child, shown)),
        Err(error) => Err(format!("{shown}: {error}")),
    }
}

fn finish((mut child, shown): (Child, String)) -> Result<(), String> {
    let status = child.wait().map_err(|e| format!("{shown}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{shown}: {status}")) }
}

fn operations(server: &mut Mounted) -> u64 {
    server.counts()["operations"].as_u64().expect("counting-fs counts operations")
}

/// Checks in a session's summary that Headwater brought the files to this many processes.
fn check_served(summary: &Value, processes: usize) -> Result<(), String> {
    let number = |path: &str| summary.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    if let Some(why) = summary["off"].as_str() {
        return Err(format!("the program ran without Headwater: {why}"));
    }
    let answered = number("/clients/answered_by_table") + number("/mount/upcalls");
    if number("/shared_fs/files_read") == 0 || answered == 0 || number("/processes") != processes as u64 {
        return Err(format!("Headwater didn't serve {processes} processes: {summary:#}"));
    }
    Ok(())
}
