//! The daemons of this machine's nodes, or the supervisors that start them: starting, watching and
//! stopping them.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use headwater_daemon::{Config, Fabric, Policy, Preload, Report, SessionId};
use headwater_fuse::init::Opening;
use headwater_store::layout::NodeDir;
use headwater_supervisor::{SupervisorConfig, Via, WORKERS_DEFAULT};
use headwater_topology::Rank;
use rustix::io::FdFlags;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::launch;
use crate::message::say;
use crate::own;
use crate::session::directory::Session;
use crate::session::events::{Event, Said};
use crate::session::opened::Opened;
use crate::session::store::{Disk, Store};
use crate::topology::Arrangement;

/// How long the daemons may take to be ready.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// Where the kernel tells of memory domains.
const DOMAINS: &str = "/sys/devices/system/node";
/// How long they may take to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// What all daemons of a session have in common.
pub struct Settings<'a> {
    /// The nodes in their order, and the trees over them.
    pub arrangement: &'a Arrangement,
    /// Who gets what.
    pub policy: Policy,
    /// Where the stores are, and the most that a node's holds.
    pub store: &'a Store,
    /// Whether memory domains have copies of their own.
    pub numa_replicas: bool,
    /// The scope.
    pub scope: Vec<(bool, String)>,
    /// Files that the reader need not open again.
    pub opened: &'a Opened,
    /// Files of more bytes travel in blocks.
    pub whole_file_bytes_max: u64,
    /// How the processes of a node with this number come to a mounted file system; without one the
    /// daemons need no supervisors.
    pub via: Option<&'a dyn Fn(u32) -> Via>,
    /// How files are opened in it, if that is not to be measured.
    pub opening: Option<Opening>,
    /// Whether they tell what they do.
    pub verbose: bool,
    /// What they fetch before anybody asks.
    pub preload: Option<&'a Preload>,
    /// Their links go over libfabric where that can be.
    pub fabric: Option<Fabric>,
    /// Whether they are to outlive this process: see [`Daemons::detach`].
    pub is_detached: bool,
}

/// A daemon whose peers are on other machines.
pub struct Alone {
    /// All but what it inherits.
    pub config: Config,
    /// Where content lies.
    pub disk: Option<Disk>,
    /// Where its peers reach it.
    pub listener: TcpListener,
    /// How processes come to a mounted file system, if there is one.
    pub via: Option<Via>,
    /// How files are opened in it, if that is not to be measured.
    pub opening: Option<Opening>,
    /// Whether it tells what it does.
    pub verbose: bool,
}

/// The running daemons; they are ended when this is dropped.
#[derive(Debug)]
pub struct Daemons {
    daemons: Vec<Daemon>,
    session: SessionId,
    /// The number of the first of them. Those of another attempt in the same session have others.
    first: usize,
    /// What is started has the other end: it closes with this process, whoever else has died.
    owner: Option<OwnedFd>,
    /// This is that one.
    lifeline: Option<OwnedFd>,
}

/// Which node it is.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Its number in the session's directory.
    pub node: u32,
    /// Its rank in the overlay.
    pub rank: Rank,
}

#[derive(Debug)]
struct Daemon {
    process: Child,
    lifeline: Option<ChildStdin>,
    /// Its standard output has ended, or whatever it still does concerns nobody.
    ended: bool,
    /// It serves who still uses its mount, and then ends.
    lingers: bool,
    report: Option<Report>,
}

impl Settings<'_> {
    /// The configuration of one node's daemon, but for what it inherits. `peers` are in the order of
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
            preload: self.preload.cloned(),
            numa_replicas: self.numa_replicas.then(|| DOMAINS.into()),
            fabric: self.fabric.clone(),
        }
    }
}

/// The subcommand that is started, and the line that it reads first.
fn subcommand(daemon: Config, via: Option<Via>, opening: Option<Opening>) -> Result<(&'static str, String)> {
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
    /// Starts a daemon for each node. What they say comes as events.
    pub fn start(session: &Session, settings: &Settings, events: &Sender<Event>) -> Result<Daemons> {
        let ranks = settings.arrangement.ranks();
        let bind = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listeners = ranks.iter().map(bind).collect::<Result<Vec<_>, _>>();
        let listeners = listeners.context("no port of 127.0.0.1 can be listened on")?;
        let by_rank = settings.arrangement.nodes.iter().map(|&node| listeners[node as usize].local_addr());
        let peers = by_rank.collect::<Result<Vec<_>, _>>()?;
        let mut started = Daemons::none(session, settings)?;
        for ((node, &rank), listener) in (0..).zip(&ranks).zip(&listeners) {
            started.add(session, settings, Place { node, rank }, (&peers, listener), events)?;
        }
        Ok(started)
    }

    /// Starts the daemon of one node alone, whose peers are elsewhere. `listener` is where they find it.
    pub fn start_one(
        session: &Session,
        settings: &Settings,
        place: Place,
        (peers, listener): (&[SocketAddr], &TcpListener),
        events: &Sender<Event>,
    ) -> Result<Daemons> {
        let mut started = Daemons::none(session, settings)?;
        started.first = place.node as usize;
        started.add(session, settings, place, (peers, listener), events)?;
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
        Place { node, rank }: Place,
        (peers, listener): (&[SocketAddr], &TcpListener),
        events: &Sender<Event>,
    ) -> Result<()> {
        let mut config = settings.config(session, node, rank, peers);
        config.listener_fd = listener.as_raw_fd();
        config.lifeline_fd = self.lifeline.as_ref().map(AsRawFd::as_raw_fd);
        let forest = settings.arrangement.forest();
        let reads = forest.tree_ids().any(|tree| forest.root(tree) == rank);
        let daemon = settings.opened.with(|files| {
            let mut inherited: Vec<_> =
                [listener.as_fd()].into_iter().chain(self.lifeline.as_ref().map(AsFd::as_fd)).collect();
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
            let said = move |line| Event::Daemon(Said { session, node: number, line });
            Daemon::start(command, &line, &inherited, events, said)
        });
        self.daemons.push(daemon.with_context(|| format!("the daemon of node {node} can't be started"))?);
        Ok(())
    }

    /// Starts one daemon, whose peers are on other machines. With a mount, its supervisor can be left to
    /// itself: see [`Daemons::detach`].
    pub fn start_alone(session: &Session, alone: Alone, events: &Sender<Event>) -> Result<Daemons> {
        let Alone { mut config, disk, listener, via, opening, verbose } = alone;
        config.listener_fd = listener.as_raw_fd();
        config.disk = disk.as_ref().map(Disk::config);
        let inherited: Vec<_> = [listener.as_fd()].into_iter().chain(disk.as_ref().map(Disk::root)).collect();
        let (subcommand, line) = subcommand(config, via, opening)?;
        let session = session.id;
        let said = move |line| Event::Daemon(Said { session, node: 0, line });
        let daemon = Daemon::start(command(subcommand, verbose), &line, &inherited, events, said);
        let daemon = daemon.context("the daemon can't be started")?;
        Ok(Daemons { daemons: vec![daemon], session, first: 0, owner: None, lifeline: None })
    }

    /// Waits until every daemon is ready.
    ///
    /// # Errors
    /// [`Interrupted`](crate::session::events::Interrupted) if a signal came that ends a program; anything else if a daemon fails.
    pub fn wait_ready(&mut self, events: &Receiver<Event>) -> Result<()> {
        let deadline = Instant::now() + READY_TIMEOUT;
        let mut waiting = self.daemons.len();
        while waiting > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            match events.recv_timeout(left) {
                Ok(Event::Daemon(said)) if self.index(&said).is_none() => {}
                Ok(Event::Daemon(Said { node, line, .. })) => match line {
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

    /// Which of them said it; `None` if none did.
    fn index(&self, said: &Said) -> Option<usize> {
        let index = said.node.checked_sub(self.first).filter(|&index| index < self.daemons.len());
        index.filter(|_| said.session == self.session)
    }

    /// Notes what a daemon said.
    pub fn heard(&mut self, said: &Said) {
        let Some(index) = self.index(said) else { return };
        let daemon = &mut self.daemons[index];
        match said.line.as_deref() {
            Some(line) if lingers(line) => (daemon.ended, daemon.lingers) = (true, true),
            Some(line) if let Some(why) = failure(line) => {
                say(format_args!("warning: {why}. Its processes use the originals"))
            }
            Some(line) => daemon.report = serde_json::from_str(line).ok().or(daemon.report.take()),
            None => daemon.ended = true,
        }
    }

    /// True once none of them is left.
    pub fn have_ended(&self) -> bool {
        self.daemons.iter().all(|daemon| daemon.ended)
    }

    /// Lets the daemons go on without this process.
    pub fn detach(mut self) {
        for mut daemon in std::mem::take(&mut self.daemons) {
            if let Some(lifeline) = &mut daemon.lifeline {
                // One that has just died needs not be told.
                let _ = lifeline.write_all(b"detach\n");
            }
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
        while !self.have_ended() {
            match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Event::Daemon(said)) => self.heard(&said),
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
        said: impl Fn(Option<String>) -> Event + Send + 'static,
    ) -> Result<Daemon> {
        // Nothing else is started meanwhile, so that only this daemon inherits them.
        inherited.iter().try_for_each(|fd| rustix::io::fcntl_setfd(fd, FdFlags::empty()))?;
        let spawned = command.spawn();
        inherited.iter().try_for_each(|fd| rustix::io::fcntl_setfd(fd, FdFlags::CLOEXEC))?;
        let mut process = spawned?;
        let output = process.stdout.take().context("the daemon has no standard output")?;
        let lifeline = process.stdin.take();
        let mut daemon = Daemon { process, lifeline, ended: false, lingers: false, report: None };
        let events = events.clone();
        thread::Builder::new().name("daemon".into()).spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if events.send(said(Some(line))).is_err() {
                    return;
                }
            }
            let _ = events.send(said(None));
        })?;
        let lifeline = daemon.lifeline.as_mut().ok_or_else(|| anyhow!("the daemon has no standard input"))?;
        lifeline.write_all(line.as_bytes())?;
        Ok(daemon)
    }

    /// Waits for the process until the deadline, and kills it then.
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

/// A subcommand of this executable, to run in the background.
fn command(subcommand: &str, verbose: bool) -> Command {
    let mut command = own::again();
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

/// What a daemon that outlives this process has to say, for whoever looks.
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

/// True if this line says that its supervisor still serves who uses its mount.
fn lingers(line: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Lingers {
        lingers: bool,
    }
    serde_json::from_str(line).is_ok_and(|line: Lingers| line.lingers)
}

/// Why a supervisor gave up, if this line says so.
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
    fn ready_is_told_from_reports() {
        assert!(is_ready(r#"{"ready":true}"#));
        assert!(!is_ready(r#"{"ready":false}"#));
        assert!(!is_ready(&serde_json::to_string(&Report::default()).unwrap()));
        assert!(!is_ready("nonsense"));
        assert_eq!(failure(r#"{"failed":"no /dev/fuse"}"#).as_deref(), Some("no /dev/fuse"));
        assert_eq!(failure(r#"{"ready":true}"#), None);
    }
}
