//! Starts, watches and stops the daemons of this machine's nodes, or their supervisors.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::slice;
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use headwater_daemon::{CacheOptions, Config, Fabric, Kinds, LinkProtection, Policy, Preload, Report, SessionId};
use headwater_fuse::init::Opening;
use headwater_overlay::Rails;
use headwater_store::layout::NodeDir;
use headwater_supervisor::{SupervisorConfig, Via, WORKERS_DEFAULT};
use headwater_topology::Rank;
use headwater_topology::hosts::Hostlist;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::launch;
use crate::message::log;
use crate::session::directory::Session;
use crate::session::events::{DaemonOutput, Event};
use crate::session::opened::Opened;
use crate::session::records::Records;
use crate::session::store::{Disk, Store};
use crate::topology::Arrangement;
use crate::{process, self_exec};

/// Timeout of the daemons' start.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// The kernel's directory of memory domains.
const DOMAINS: &str = "/sys/devices/system/node";
/// Timeout of the daemons' end.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Settings that all daemons of a session share.
pub struct Settings<'a> {
    /// The nodes' ranks, and the trees.
    pub arrangement: &'a Arrangement,
    /// The push policy.
    pub policy: Policy,
    /// The stores' directory and limit.
    pub store: &'a Store,
    /// Set if each memory domain has its own copies: patterns of their paths; without any, of all.
    pub numa_replicas: Option<&'a [String]>,
    /// The scope.
    pub scope: Vec<(bool, String)>,
    /// Open files for the reader.
    pub opened: &'a Opened,
    /// Files of more bytes travel in blocks.
    pub whole_file_bytes_max: u64,
    /// Larger files are read from their source, if there is a limit.
    pub stored_file_bytes_max: Option<u64>,
    /// Kinds of files of which content is stored.
    pub serve: Kinds,
    /// Whether what audited processes start in other processes is served.
    pub follows_fork: bool,
    /// Where content is kept for later sessions.
    pub cache: Option<CacheOptions>,
    /// Returns how a node's mount is made; without mounts the daemons need no supervisors.
    pub via: Option<&'a dyn Fn(u32) -> Via>,
    /// The opening mode of the mount.
    pub opening: Opening,
    /// Whether they report each step.
    pub verbose: bool,
    /// Files to preload.
    pub preload: Option<&'a Preload>,
    /// Which nodes report what their processes use.
    pub records: Records,
    /// Whether they record what they do: see [`JobReport`](crate::job_report::JobReport).
    pub reports: bool,
    /// The nodes' names by rank, as a hostlist; empty if they are not known.
    pub node_names: String,
    /// libfabric for their links, where it works.
    pub fabric: Option<Fabric>,
    /// How their links are protected.
    pub link_protection: LinkProtection,
    /// The interfaces that their links use, if the user named some.
    pub rails: Option<Rails>,
    /// Whether they outlive this process: see [`Daemons::detach`].
    pub is_detached: bool,
}

/// A daemon whose peers are on other machines.
pub struct Alone {
    /// The configuration, without inherited descriptors.
    pub config: Config,
    /// The RAM disk for content.
    pub disk: Option<Disk>,
    /// The listener for its peers.
    pub listener: TcpListener,
    /// How its mount is made, if there is one.
    pub via: Option<Via>,
    /// The opening mode of the mount.
    pub opening: Opening,
    /// Whether it reports each step.
    pub verbose: bool,
}

/// The running daemons. They end when this is dropped.
#[derive(Debug)]
pub struct Daemons {
    daemons: Vec<Daemon>,
    session: SessionId,
    /// The first daemon's number. Other attempts in the same session have other numbers.
    first: usize,
    /// The end of a pipe to the started processes. It closes with this process.
    owner: Option<OwnedFd>,
    /// The other end of the pipe, which they inherit.
    lifeline: Option<OwnedFd>,
}

/// A node's number and rank.
#[derive(Clone, Copy, Debug)]
pub struct NodeRank {
    /// Its number in the session's directory.
    pub node: u32,
    /// Its rank in the overlay.
    pub rank: Rank,
}

#[derive(Debug)]
struct Daemon {
    process: Child,
    lifeline: Option<ChildStdin>,
    /// Its standard output has ended, or it lingers.
    ended: bool,
    /// It serves the remaining users of its mount, and ends after them.
    lingers: bool,
    report: Option<Report>,
}

impl Settings<'_> {
    /// Returns the configuration of one node's daemon, without inherited descriptors. `peers` are in the order of
    /// ranks.
    fn config(&self, session: &Session, node: u32, rank: Rank, peers: &[SocketAddr]) -> Config {
        Config {
            rank: rank.0,
            ranks: peers.len() as u32,
            servers: self.arrangement.servers,
            shape: self.arrangement.shape,
            policy: self.policy,
            session: session.id,
            key: session.key.clone(),
            peers: peers.to_vec(),
            names: Vec::new(),
            node_names: self.node_names.clone(),
            is_site_export: false,
            listener_fd: -1,
            node_dir: session.node(node).path().to_owned(),
            session_lock: session.lock_path(),
            store_bytes_max: self.store.bytes_max,
            disk: self.store.disk.as_ref().map(Disk::config),
            scope: self.scope.clone(),
            opened: Vec::new(),
            table: None,
            mount: None,
            recover: false,
            lifeline_fd: None,
            whole_file_bytes_max: self.whole_file_bytes_max,
            stored_file_bytes_max: self.stored_file_bytes_max,
            serve: self.serve,
            follows_fork: self.follows_fork,
            cache: self.cache.clone(),
            preload: self.preload.cloned(),
            record_to: Some(session.recorded_path(node)).filter(|_| self.records.has(rank, self.arrangement.servers)),
            report_to: self.reports.then(|| session.part_path(node)),
            numa_replicas: self.numa_replicas.map(|_| DOMAINS.into()),
            numa_replicas_for: self.numa_replicas.unwrap_or_default().to_vec(),
            fabric: self.fabric.clone(),
            link_protection: self.link_protection,
            rails: self.rails.clone(),
        }
    }
}

/// Returns the names of nodes on this machine, by rank. A single node has the machine's.
pub fn local_names(arrangement: &Arrangement) -> String {
    let names = arrangement.nodes.iter().filter(|_| arrangement.nodes.len() > 1).map(|node| format!("n{node}"));
    Hostlist::from_names(names).map(|names| names.to_string()).unwrap_or_default()
}

/// Returns the subcommand to start, and the first line of its standard input.
fn subcommand(daemon: Config, via: Option<Via>, opening: Opening) -> Result<(&'static str, String)> {
    let (command, line) = match via {
        None => ("daemon", serde_json::to_string(&daemon)?),
        Some(via) => {
            let supervisor = SupervisorConfig { daemon, via, opening, workers: WORKERS_DEFAULT };
            ("supervise", serde_json::to_string(&supervisor)?)
        }
    };
    Ok((command, line + "\n"))
}

impl Daemons {
    /// Starts a daemon for each node. Lines of their output are sent as `events`.
    pub fn start(session: &Session, settings: &Settings, events: &Sender<Event>) -> Result<Daemons> {
        let ranks = settings.arrangement.ranks();
        let bind = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listeners = ranks.iter().map(bind).collect::<Result<Vec<_>, _>>();
        let listeners = listeners.context("no port of 127.0.0.1 can be listened on")?;
        let by_rank = settings.arrangement.nodes.iter().map(|&node| listeners[node as usize].local_addr());
        let peers = by_rank.collect::<Result<Vec<_>, _>>()?;
        let mut started = Daemons::none(session, settings)?;
        for ((node, &rank), listener) in (0..).zip(&ranks).zip(&listeners) {
            started.add(session, settings, NodeRank { node, rank }, (&peers, slice::from_ref(listener)), events)?;
        }
        Ok(started)
    }

    /// Starts one node's daemon, with peers on other machines; `listeners` are for these.
    pub fn start_one(
        session: &Session,
        settings: &Settings,
        node_rank: NodeRank,
        (peers, listeners): (&[SocketAddr], &[TcpListener]),
        events: &Sender<Event>,
    ) -> Result<Daemons> {
        let mut started = Daemons::none(session, settings)?;
        started.first = node_rank.node as usize;
        started.add(session, settings, node_rank, (peers, listeners), events)?;
        Ok(started)
    }

    fn none(session: &Session, settings: &Settings) -> Result<Daemons> {
        let needs_lifeline = settings.via.is_some() && !settings.is_detached;
        let lifeline = needs_lifeline.then(|| pipe_with(PipeFlags::CLOEXEC)).transpose()?;
        let (lifeline, owner) = lifeline.unzip();
        Ok(Daemons { daemons: Vec::new(), session: session.id, first: 0, owner, lifeline })
    }

    fn add(
        &mut self,
        session: &Session,
        settings: &Settings,
        NodeRank { node, rank }: NodeRank,
        (peers, listeners): (&[SocketAddr], &[TcpListener]),
        events: &Sender<Event>,
    ) -> Result<()> {
        let mut config = settings.config(session, node, rank, peers);
        let mut listener_fds = listeners.iter().map(AsRawFd::as_raw_fd);
        config.listener_fd = listener_fds.next().context("the daemon has no listener")?;
        if let Some(rails) = &mut config.rails {
            rails.listener_fds = listener_fds.collect();
        }
        config.lifeline_fd = self.lifeline.as_ref().map(AsRawFd::as_raw_fd);
        let forest = settings.arrangement.forest();
        let reads = forest.tree_ids().any(|tree| forest.root(tree) == rank);
        let daemon = settings.opened.with(|files| {
            let mut inherited: Vec<_> =
                listeners.iter().map(AsFd::as_fd).chain(self.lifeline.as_ref().map(AsFd::as_fd)).collect();
            inherited.extend(settings.store.disk.as_ref().map(Disk::root));
            if reads {
                let named =
                    |(path, file): &(PathBuf, BorrowedFd<'_>)| Some((path.to_str()?.to_owned(), file.as_raw_fd()));
                config.opened = files.iter().filter_map(named).collect();
                inherited.extend(files.iter().map(|(_, file)| *file));
            }
            let (subcommand, line) = subcommand(config, settings.via.map(|via| via(node)), settings.opening)?;
            let mut command = command(subcommand, settings.verbose);
            if settings.is_detached {
                command.stderr(new_log(&session.node(node))?);
            }
            let (session, number) = (session.id, self.first + self.daemons.len());
            let event = move |line| Event::Daemon(DaemonOutput { session, node: number, line });
            Daemon::start(command, &line, &inherited, events, event)
        });
        self.daemons.push(daemon.with_context(|| format!("the daemon of node {node} can't be started"))?);
        Ok(())
    }

    /// Starts one daemon, with peers on other machines. Its mount can outlive this process: see [`Daemons::detach`].
    pub fn start_alone(session: &Session, alone: Alone, events: &Sender<Event>) -> Result<Daemons> {
        let Alone { mut config, disk, listener, via, opening, verbose } = alone;
        config.listener_fd = listener.as_raw_fd();
        config.disk = disk.as_ref().map(Disk::config);
        let inherited: Vec<_> = [listener.as_fd()].into_iter().chain(disk.as_ref().map(Disk::root)).collect();
        let (subcommand, line) = subcommand(config, via, opening)?;
        let session = session.id;
        let event = move |line| Event::Daemon(DaemonOutput { session, node: 0, line });
        let daemon = Daemon::start(command(subcommand, verbose), &line, &inherited, events, event);
        let daemon = daemon.context("the daemon can't be started")?;
        Ok(Daemons { daemons: vec![daemon], session, first: 0, owner: None, lifeline: None })
    }

    /// Waits until every daemon is ready.
    ///
    /// # Errors
    /// [`Interrupted`](crate::session::events::Interrupted) on a signal that ends programs; others if a daemon fails.
    pub fn wait_ready(&mut self, events: &Receiver<Event>) -> Result<()> {
        let deadline = Instant::now() + READY_TIMEOUT;
        let mut waiting = self.daemons.len();
        while waiting > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            match events.recv_timeout(left) {
                Ok(Event::Daemon(output)) if self.index(&output).is_none() => {}
                Ok(Event::Daemon(DaemonOutput { node, line, .. })) => match line {
                    Some(line) if is_ready(&line) => waiting -= 1,
                    Some(line) => failure(&line).map_or(Ok(()), |why| Err(anyhow!(why)))?,
                    None => bail!("the daemon of node {node} ended before it was ready"),
                },
                Ok(event) => event.interrupts().map_or(Ok(()), Err)?,
                Err(_) => bail!("{waiting} daemons were not ready after {} s", READY_TIMEOUT.as_secs()),
            }
        }
        Ok(())
    }

    /// Returns the index of the daemon of this output; `None` if it is not one of these.
    fn index(&self, output: &DaemonOutput) -> Option<usize> {
        let index = output.node.checked_sub(self.first).filter(|&index| index < self.daemons.len());
        index.filter(|_| output.session == self.session)
    }

    /// Handles a line of a daemon's output.
    pub fn note_output(&mut self, output: &DaemonOutput) {
        let Some(index) = self.index(output) else { return };
        let daemon = &mut self.daemons[index];
        match output.line.as_deref() {
            Some(line) if lingers(line) => (daemon.ended, daemon.lingers) = (true, true),
            Some(line) if let Some(why) = failure(line) => {
                log(format_args!("warning: {why}. Its processes use the source files"))
            }
            Some(line) => daemon.report = serde_json::from_str(line).ok().or(daemon.report.take()),
            None => daemon.ended = true,
        }
    }

    /// Returns whether all have ended.
    pub fn have_ended(&self) -> bool {
        self.daemons.iter().all(|daemon| daemon.ended)
    }

    /// Lets the daemons outlive this process.
    pub fn detach(mut self) {
        for mut daemon in std::mem::take(&mut self.daemons) {
            if let Some(lifeline) = &mut daemon.lifeline {
                // A write fails if the daemon has just died.
                let _ = lifeline.write_all(b"detach\n");
            }
        }
    }

    /// Ends the daemons; returns their reports, `None` for a lost one.
    pub fn stop(mut self, events: &Receiver<Event>) -> Vec<Option<Report>> {
        for daemon in &mut self.daemons {
            if let Some(lifeline) = &mut daemon.lifeline {
                // A write fails if the daemon has died.
                let _ = lifeline.write_all(b"stop\n");
            }
        }
        let deadline = Instant::now() + STOP_TIMEOUT;
        while !self.have_ended() {
            match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Event::Daemon(output)) => self.note_output(&output),
                Ok(Event::Signal(_) | Event::Node(_)) => {}
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
        drop(self.owner.take());
        let deadline =
            Instant::now() + if self.daemons.iter().all(|d| d.ended) { STOP_TIMEOUT } else { Duration::from_secs(1) };
        for daemon in &mut self.daemons {
            daemon.end(deadline);
        }
    }
}

impl Daemon {
    fn start(
        mut command: Command,
        line: &str,
        inherited: &[BorrowedFd<'_>],
        events: &Sender<Event>,
        event: impl Fn(Option<String>) -> Event + Send + 'static,
    ) -> Result<Daemon> {
        let mut process = process::spawn_with(&mut command, inherited)?;
        let output = process.stdout.take().context("the daemon has no standard output")?;
        let lifeline = process.stdin.take();
        let mut daemon = Daemon { process, lifeline, ended: false, lingers: false, report: None };
        let events = events.clone();
        thread::Builder::new().name("daemon".into()).spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if events.send(event(Some(line))).is_err() {
                    return;
                }
            }
            let _ = events.send(event(None));
        })?;
        let lifeline = daemon.lifeline.as_mut().ok_or_else(|| anyhow!("the daemon has no standard input"))?;
        lifeline.write_all(line.as_bytes())?;
        Ok(daemon)
    }

    /// Waits for the process, and kills it at the deadline.
    fn end(&mut self, deadline: Instant) {
        while !self.lingers && matches!(self.process.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                let _ = self.process.kill();
                let _ = self.process.wait();
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Returns the command for a background process of this executable.
fn command(subcommand: &str, verbose: bool) -> Command {
    let mut command = self_exec::command();
    command.arg(subcommand);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    for name in launch::loader_variables() {
        command.env_remove(name);
    }
    if verbose && std::env::var_os("HEADWATER_LOG").is_none() {
        command.env("HEADWATER_LOG", "info");
    }
    command
}

/// Creates the log file of a daemon that outlives this process.
fn new_log(node: &NodeDir) -> Result<File> {
    let path = node.path().join("log");
    let log = File::options().append(true).create_new(true).mode(0o600).open(&path);
    log.with_context(|| format!("{} can't be made", path.display()))
}

fn is_ready(line: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Ready {
        ready: bool,
    }
    serde_json::from_str(line).is_ok_and(|line: Ready| line.ready)
}

/// Returns whether this line reports that the supervisor lingers for users of its mount.
fn lingers(line: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Lingers {
        lingers: bool,
    }
    serde_json::from_str(line).is_ok_and(|line: Lingers| line.lingers)
}

/// Returns the reason of a supervisor's failure, if this line has one.
fn failure(line: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Failed {
        failed: String,
    }
    serde_json::from_str(line).ok().map(|line: Failed| line.failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_lines_differ_from_reports() {
        assert!(is_ready(r#"{"ready":true}"#));
        assert!(!is_ready(r#"{"ready":false}"#));
        assert!(!is_ready(&serde_json::to_string(&Report::default()).unwrap()));
        assert!(!is_ready("nonsense"));
        assert_eq!(failure(r#"{"failed":"no /dev/fuse"}"#).as_deref(), Some("no /dev/fuse"));
        assert_eq!(failure(r#"{"ready":true}"#), None);
    }
}
