//! The daemons of this machine's nodes: starting, watching and stopping them.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use headwater_daemon::{Config, Policy, Report};
use rustix::io::FdFlags;

use crate::launch;
use crate::opened::Opened;
use crate::run::Event;
use crate::session::Session;

/// How long the daemons may take to be ready.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long they may take to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// What all daemons of a session have in common.
#[derive(Debug)]
pub struct Shape {
    /// How many nodes there are.
    pub nodes: u32,
    /// Children of each.
    pub fan_out: u32,
    /// Who gets what.
    pub policy: Policy,
    /// The most that a node's store holds, in bytes.
    pub store_bytes_max: u64,
    /// The scope.
    pub scope: Vec<(bool, String)>,
    /// Files that the reader need not open again.
    pub opened: Opened,
    /// Whether they tell what they do.
    pub verbose: bool,
}

/// The running daemons; they are ended when this is dropped.
#[derive(Debug)]
pub struct Daemons {
    daemons: Vec<Daemon>,
}

#[derive(Debug)]
struct Daemon {
    process: Child,
    lifeline: Option<ChildStdin>,
    /// Its standard output has ended.
    ended: bool,
    report: Option<Report>,
}

impl Daemons {
    /// Starts a daemon for each node. What they say comes as events.
    pub fn start(session: &Session, shape: &Shape, events: &Sender<Event>) -> Result<Daemons> {
        let bind = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listeners = (0..shape.nodes).map(bind).collect::<Result<Vec<_>, _>>();
        let listeners = listeners.context("no port of 127.0.0.1 can be listened on")?;
        let peers = listeners.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>()?;
        let mut started = Daemons { daemons: Vec::new() };
        for (rank, listener) in (0..).zip(&listeners) {
            let mut config = Config {
                rank,
                ranks: shape.nodes,
                fan_out: shape.fan_out,
                policy: shape.policy,
                session: session.id,
                key: session.key.clone(),
                peers: peers.clone(),
                listener_fd: listener.as_raw_fd(),
                node_dir: session.node(rank).path().to_owned(),
                session_lock: session.lock_path(),
                store_bytes_max: shape.store_bytes_max,
                scope: shape.scope.clone(),
                opened: Vec::new(),
                table: None,
            };
            let daemon = shape.opened.with(|files| {
                let mut inherited = vec![listener.as_fd()];
                if rank == 0 {
                    let named =
                        |(path, file): &(PathBuf, BorrowedFd<'_>)| Some((path.to_str()?.to_owned(), file.as_raw_fd()));
                    config.opened = files.iter().filter_map(named).collect();
                    inherited.extend(files.iter().map(|(_, file)| *file));
                }
                Daemon::start(&config, &inherited, shape.verbose, events)
            });
            started.daemons.push(daemon.with_context(|| format!("the daemon of node {rank} can't be started"))?);
        }
        Ok(started)
    }

    /// Waits until every daemon is ready.
    ///
    /// # Errors
    /// [`Interrupted`](crate::run::Interrupted) if a signal came that ends a program; anything else if a daemon fails.
    pub fn wait_ready(&mut self, events: &Receiver<Event>) -> Result<()> {
        let deadline = Instant::now() + READY_TIMEOUT;
        let mut waiting = self.daemons.len();
        while waiting > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            match events.recv_timeout(left) {
                Ok(Event::Daemon(_, Some(line))) if is_ready(&line) => waiting -= 1,
                Ok(Event::Daemon(rank, None)) => bail!("the daemon of node {rank} ended before it was ready"),
                Ok(event) => event.interrupts().map_or(Ok(()), Err)?,
                Err(_) => bail!("{waiting} daemons were not ready after {} s", READY_TIMEOUT.as_secs()),
            }
        }
        Ok(())
    }

    /// Notes what a daemon said, or that it has ended (`None`).
    pub fn heard(&mut self, rank: usize, line: Option<&str>) {
        let daemon = &mut self.daemons[rank];
        match line {
            Some(line) if !is_ready(line) => daemon.report = serde_json::from_str(line).ok(),
            Some(_) => {}
            None => daemon.ended = true,
        }
    }

    /// Ends the daemons and gives the reports of those that still could.
    pub fn stop(mut self, events: &Receiver<Event>) -> Vec<Option<Report>> {
        for daemon in &mut self.daemons {
            if let Some(lifeline) = &mut daemon.lifeline {
                // One that has died has no report to give.
                let _ = lifeline.write_all(b"stop\n");
            }
        }
        let deadline = Instant::now() + STOP_TIMEOUT;
        while self.daemons.iter().any(|d| !d.ended) {
            match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Event::Daemon(rank, line)) => self.heard(rank, line.as_deref()),
                Ok(Event::Signal(_)) => {}
                Err(_) => break,
            }
        }
        self.daemons.iter_mut().map(|d| d.report.take()).collect()
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            drop(daemon.lifeline.take());
        }
        let deadline =
            Instant::now() + if self.daemons.iter().all(|d| d.ended) { STOP_TIMEOUT } else { Duration::from_secs(1) };
        for daemon in &mut self.daemons {
            daemon.end(deadline);
        }
    }
}

impl Daemon {
    fn start(config: &Config, inherited: &[BorrowedFd<'_>], verbose: bool, events: &Sender<Event>) -> Result<Daemon> {
        let mut command = Command::new(own_executable());
        command.arg0("headwater").arg("daemon").current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        for name in launch::loader_variables() {
            command.env_remove(name);
        }
        if verbose && std::env::var_os("HEADWATER_LOG").is_none() {
            command.env("HEADWATER_LOG", "info");
        }
        let line = serde_json::to_string(config)? + "\n";
        // Nothing else is started meanwhile, so that only this daemon inherits them.
        inherited.iter().try_for_each(|fd| rustix::io::fcntl_setfd(fd, FdFlags::empty()))?;
        let spawned = command.spawn();
        inherited.iter().try_for_each(|fd| rustix::io::fcntl_setfd(fd, FdFlags::CLOEXEC))?;
        let mut process = spawned?;
        let output = process.stdout.take().context("the daemon has no standard output")?;
        let lifeline = process.stdin.take();
        let mut daemon = Daemon { process, lifeline, ended: false, report: None };
        let (events, rank) = (events.clone(), config.rank as usize);
        thread::Builder::new().name(format!("daemon {rank}")).spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if events.send(Event::Daemon(rank, Some(line))).is_err() {
                    return;
                }
            }
            let _ = events.send(Event::Daemon(rank, None));
        })?;
        let lifeline = daemon.lifeline.as_mut().ok_or_else(|| anyhow!("the daemon has no standard input"))?;
        lifeline.write_all(line.as_bytes())?;
        Ok(daemon)
    }

    /// Waits for the process until the deadline, and kills it then.
    fn end(&mut self, deadline: Instant) {
        while matches!(self.process.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                let _ = self.process.kill();
                let _ = self.process.wait();
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// This executable, for starting it again.
pub fn own_executable() -> PathBuf {
    std::env::current_exe().ok().filter(|path| path.exists()).unwrap_or_else(|| "/proc/self/exe".into())
}

fn is_ready(line: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Ready {
        ready: bool,
    }
    serde_json::from_str(line).is_ok_and(|line: Ready| line.ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_told_from_reports() {
        assert!(is_ready(r#"{"ready":true}"#));
        assert!(!is_ready(r#"{"ready":false}"#));
        assert!(!is_ready(&serde_json::to_string(&Report::default()).unwrap()));
        assert!(!is_ready("nonsense"));
    }
}
