//! The node agent of a job: it joins the others at the front end, starts the node's daemon, and sends the daemon's
//! address to the node's processes. It ends when the launcher has ended, or when neither processes nor a front end are
//! left.
//!
//! A process that passes the job on standard input may keep that open, as the owner: it starts the node's processes.
//! If standard input ends after the job's line, the owner was killed, and no more processes start. An owner that knows
//! that all processes have ended and that the batch system will kill the agent writes [`LEAVE`].

mod host;
mod step;

use std::collections::HashMap;
use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use headwater_daemon::Report;
use headwater_daemon::protocol;
use headwater_launch::info::LaunchInfo;
use headwater_overlay::channel::Channel;
use mio::net::{UnixListener, UnixStream};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use self::step::Step;
use super::attach::{FAILED, existing, socket};
use super::client::{connect, receive, send};
use super::events::NodeEvent;
use super::file::{self, Job};
use super::interfaces::Listening;
use super::membership::{Arrival, MISSING_MS_MAX};
use super::messages::{Answer, FromNode, NodeIo, Roster, ToNode, ToProcess};
use super::served::Served;
use crate::control::client;
use crate::io::preload;
use crate::options::inner::NodeOptions;
use crate::process::{self, Side, monotonic_us};
use crate::session::directory::{NODES_TRIED_MAX, Session, name_of};
use crate::session::events::Event;
use crate::session::store;
use crate::warm::Forked;

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
const FRONT: Token = Token(2);
/// Timeout of the roster.
const ROSTER_MAX: Duration = Duration::from_millis(MISSING_MS_MAX + 5_000);
/// First byte of the owner's line by which the agent ends at once.
const LEAVE: u8 = b'l';
/// How long the agent waits for processes when neither processes nor the front end are left.
const EMPTY_MAX: Duration = Duration::from_secs(1);

/// Serves the node's processes until the end, in a background process. It is no child of the caller, which becomes a
/// program, and inherits only standard input, by which the job may be passed. Standard output is closed once
/// processes can connect; before, it gets the socket's path or the reason of a failure.
///
/// Call it before any thread is started.
pub fn serve(options: &NodeOptions) -> Result<u8> {
    process::close_inherited();
    let null = File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stderr(&null)?;
    env::set_current_dir("/")?;
    if let Side::Parent(_) = process::fork()? {
        return Ok(0);
    }
    let _ = rustix::process::setsid();
    let prepared = Node::prepare(options);
    match &prepared {
        Ok(Prepared::Node(node)) => println!("{}", socket(node.session.directory()).display()),
        Ok(Prepared::Exists(socket)) => socket.iter().for_each(|socket| println!("{}", socket.display())),
        Err(error) => println!("{FAILED}{error:#}"),
    }
    let _ = io::stdout().flush();
    rustix::stdio::dup2_stdout(&null)?;
    if let Prepared::Node(mut node) = prepared? {
        node.serve()?;
    }
    Ok(0)
}

/// The node agent.
struct Node {
    job: Job,
    /// The job file, if the job was read from one.
    job_file: Option<PathBuf>,
    /// The connection to the front end broke.
    is_front_lost: bool,
    session: Session,
    /// How its processes use the I/O library.
    io: Option<NodeIo>,
    launch_info: Option<LaunchInfo>,
    nodes_here: host::Nodes,
    /// The step with which the batch system kills this agent.
    step: Option<Step>,
    /// The daemon's address, once it is registered.
    address: Option<SocketAddr>,
    poll: Poll,
    listener: UnixListener,
    sender: Sender<Event>,
    events: Receiver<Event>,
    front: Option<Channel>,
    /// The daemon's listeners.
    overlay: Listening,
    /// The process owner was killed.
    is_orphaned: bool,
    /// Processes that wait for an answer.
    waiting: Vec<UnixStream>,
    processes: HashMap<Token, OwnedFd>,
    /// Number of processes that have attached.
    processes_total: u32,
    next: usize,
    stage: Stage,
}

enum Prepared {
    Node(Box<Node>),
    /// The node has an agent. Its socket, if that is wanted and there.
    Exists(Option<PathBuf>),
}

enum Stage {
    /// Waiting for the roster, until this time.
    Joining(Instant),
    Serving(Box<Served>, Roster),
    Alone(String),
    Ended,
}

impl Node {
    fn prepare(options: &NodeOptions) -> Result<Prepared> {
        let job = Job::read(&options.job)?;
        let key = job.key.decoded(job.session)?;
        let store = options.store.as_deref().or(job.service.store.as_deref());
        let store = store::choose(store, job.service.store_bytes_max, 1)?;
        let Some(session) = Session::join(&store.directory, job.session, key)? else {
            let named = options.store.as_deref().or(job.service.store.as_deref());
            let socket = options.joins.then(|| existing(named, &name_of(job.session))).flatten();
            return Ok(Prepared::Exists(socket));
        };
        let path = socket(session.directory());
        let mut listener = UnixListener::bind(&path).with_context(|| format!("{} can't be made", path.display()))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let (sender, events) = forwarded(Arc::new(Waker::new(poll.registry(), WAKER)?))?;
        let overlay = Listening::begin(&job.service.interfaces, job.service.ports)?;
        if options.has_owner {
            watch_owner(sender.clone())?;
        }
        let launch_info = LaunchInfo::of(&|name| env::var_os(name));
        let step = Step::of_this_process(launch_info.as_ref()).filter(|_| !options.has_owner);
        let io = job.service.io.clone().and_then(|options| {
            let library = preload::copy(session.directory()).ok()?;
            Some(NodeIo { library, is_everywhere: false, options })
        });
        Ok(Prepared::Node(Box::new(Node {
            job,
            job_file: Some(options.job.clone()).filter(|job| job.is_absolute()),
            is_front_lost: false,
            session,
            io,
            launch_info,
            nodes_here: host::Nodes::default(),
            step,
            address: None,
            poll,
            listener,
            sender,
            events,
            front: None,
            overlay,
            is_orphaned: false,
            waiting: Vec::new(),
            processes: HashMap::new(),
            processes_total: 0,
            next: FRONT.0 + 1,
            stage: Stage::Joining(Instant::now() + ROSTER_MAX),
        })))
    }

    fn serve(&mut self) -> Result<()> {
        if let Err(error) = self.connect_front() {
            self.fall_back(format!("the job's front end can't be reached: {error:#}"));
        }
        let mut ready = Events::with_capacity(64);
        let mut empty_since = None;
        while !matches!(self.stage, Stage::Ended) {
            if let Stage::Joining(until) = self.stage
                && Instant::now() >= until
            {
                self.fall_back("the front end sent no list of nodes in time".into());
            }
            let is_empty = (self.front.is_none() || self.is_orphaned) && self.processes.is_empty();
            empty_since = is_empty.then(|| empty_since.unwrap_or_else(Instant::now));
            if empty_since.is_some_and(|since: Instant| since.elapsed() >= EMPTY_MAX) {
                break;
            }
            let next_report = self.report_between();
            let is_timed = is_empty || matches!(self.stage, Stage::Joining(_));
            let timeout = is_timed.then_some(EMPTY_MAX / 4).into_iter().chain(next_report).min();
            match self.poll.poll(&mut ready, timeout) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error.into()),
                _ => {}
            }
            let tokens: Vec<Token> = ready.iter().map(mio::event::Event::token).collect();
            for token in tokens {
                match token {
                    LISTENER => self.accept(),
                    WAKER => self.take_events(),
                    FRONT => self.receive(),
                    token => self.note_end(token),
                }
            }
        }
        self.end();
        Ok(())
    }

    /// Connects to the front end and registers.
    fn connect_front(&mut self) -> Result<()> {
        let stream = connect(&self.job.front)?;
        let listening = self.overlay.listeners[0].local_addr()?;
        let is_anywhere = listening.ip().is_unspecified();
        let ip = if is_anywhere { stream.local_addr()?.ip() } else { listening.ip() };
        let address = SocketAddr::new(ip, listening.port());
        stream.set_nonblocking(true)?;
        let mut stream = mio::net::TcpStream::from_std(stream);
        self.poll.registry().register(&mut stream, FRONT, Interest::READABLE | Interest::WRITABLE)?;
        self.front = Some(Channel::connect(stream, self.job.session, &self.session.key)?);
        self.address = Some(address);
        self.announce();
        Ok(())
    }

    /// Registers this node, or updates the registration.
    fn announce(&mut self) {
        let Some(address) = self.address else { return };
        let info = self.launch_info.as_ref();
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        self.send(&FromNode::Here(Arrival {
            name,
            address,
            interfaces: self.overlay.addresses(),
            interfaces_missing: self.overlay.missing.clone(),
            stands_for: self.nodes_here.count(),
            number: info.and_then(|info| info.node),
            nodes: info.and_then(|info| info.nodes).or(self.job.service.nodes),
            rank: info.and_then(|info| info.rank),
            processes_here: info.and_then(|info| info.local_size),
            processes: info.and_then(|info| info.size),
            has_io: self.io.is_some(),
        }));
    }

    /// Notes which of the launcher's nodes a new process belongs to; registers again if that is a further node.
    fn note_process_node(&mut self, process: Pid) {
        if !matches!(self.stage, Stage::Joining(_)) {
            return;
        }
        let before = self.nodes_here.count();
        let launcher = self.launch_info.as_ref().map(|info| info.launcher);
        if let Some(info) = host::launch_info_of(process).filter(|info| Some(info.launcher) == launcher) {
            self.nodes_here.note(&info);
        }
        if self.nodes_here.count() > before {
            self.announce();
        }
    }

    fn send(&mut self, message: &FromNode) {
        self.front.take_if(|front| send(front, message).is_err());
    }

    fn receive(&mut self) {
        while let Some(front) = &mut self.front {
            match receive(front) {
                Ok(None) => return,
                Ok(Some(ToNode::Roster(roster))) => self.begin(roster),
                Ok(Some(ToNode::TooLate)) => {
                    self.fall_back("the job's other nodes started without this one, which registered too late".into());
                }
                Ok(Some(ToNode::End)) => return self.finish(Some(monotonic_us())),
                Ok(Some(ToNode::Welcome | ToNode::Ended(_))) => {}
                Err(_) => self.front = None,
            }
        }
        self.is_front_lost = true;
        if matches!(self.stage, Stage::Joining(_)) {
            self.fall_back("the connection to the job's front end broke".into());
        }
    }

    /// Starts the daemon; processes wait meanwhile.
    fn begin(&mut self, roster: Roster) {
        if !matches!(self.stage, Stage::Joining(_)) {
            return;
        }
        if let Some(io) = &mut self.io {
            io.is_everywhere = roster.io_everywhere;
        }
        let served =
            Served::start(&self.job.service, &roster, &self.session, &self.overlay, &self.sender, &self.events);
        match served {
            Ok(served) => {
                if self.job.service.reports {
                    self.send(&FromNode::Clock(monotonic_us()));
                }
                self.send(&FromNode::Ready(served.mechanism().into()));
                self.stage = Stage::Serving(Box::new(served), roster);
                self.answer_all();
            }
            Err(why) => {
                self.send(&FromNode::Failed(why.clone()));
                self.fall_back(why);
            }
        }
    }

    fn fall_back(&mut self, why: String) {
        if !matches!(self.stage, Stage::Ended) {
            self.stage = Stage::Alone(why);
            self.answer_all();
        }
    }

    /// Asks the daemon for a report, if one is due before the end. Returns how long it is until the next one.
    fn report_between(&mut self) -> Option<Duration> {
        let (Some(step), Stage::Serving(served, _)) = (&mut self.step, &self.stage) else { return None };
        let socket = served.control()?;
        let wait = step.until_report(Instant::now())?;
        if !wait.is_zero() {
            return Some(wait);
        }
        let events = self.sender.clone();
        let asks = move || {
            let report = ask_report(&socket).map(Box::new);
            // Without a receiver, the agent has ended already.
            let _ = events.send(Event::Node(NodeEvent::Reported(report)));
        };
        if thread::Builder::new().name("report".into()).spawn(asks).is_err() {
            step.reported();
        }
        step.until_report(Instant::now())
    }

    /// Sends a report from before the end.
    fn send_report(&mut self, report: Option<Box<Report>>) {
        if report.is_some() {
            let message = self.report(report, self.forked(), true);
            self.send(&message);
        }
        self.step.iter_mut().for_each(Step::reported);
    }

    /// Notes the end of a process, and leaves with the last task of a step that is about to be killed.
    fn note_end(&mut self, token: Token) {
        self.processes.remove(&token);
        let has_ended = self.step.as_mut().is_some_and(|step| step.note_end(token));
        if has_ended && let Stage::Serving(served, _) = &self.stage {
            // A daemon takes longer to end than Slurm may leave it.
            let report = served.control().and_then(|socket| ask_report(&socket)).map(Box::new);
            self.send_report(report);
            self.finish(None);
        }
    }

    /// Returns what zygotes have forked, while the daemon's directory is there.
    fn forked(&self) -> Forked {
        // One directory of those for all mechanisms that were tried has the count.
        (0..NODES_TRIED_MAX).map(|node| Forked::of(self.session.node(node).path())).sum()
    }

    /// Returns a message with the daemon's report.
    fn report(&self, report: Option<Box<Report>>, forked: Forked, is_interim: bool) -> FromNode {
        // The last mechanism that was tried is the one that served.
        let recorded = (0..NODES_TRIED_MAX).rev().map(|node| self.session.recorded(node));
        let recorded = recorded.into_iter().find(|lines| !lines.is_empty()).unwrap_or_default();
        FromNode::Report {
            processes: self.processes_total,
            from_zygotes: forked.ranks,
            children_from_zygotes: forked.children,
            report,
            recorded,
            is_interim,
        }
    }

    /// Ends the daemon and sends what it reports; `end_received_us` is when the front end's message arrived.
    fn finish(&mut self, end_received_us: Option<u64>) {
        if let Stage::Serving(served, _) = std::mem::replace(&mut self.stage, Stage::Ended) {
            let forked = self.forked();
            let report = served.end(&self.events).map(Box::new);
            // Before the report, after which nothing is expected of this node.
            if let Some(part) = (0..NODES_TRIED_MAX).rev().find_map(|node| self.session.part(node)).map(Box::new) {
                self.send(&FromNode::Part { end_received_us, sent_us: monotonic_us(), part });
            }
            let message = self.report(report, forked, false);
            self.send(&message);
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            self.watch(&stream);
            self.waiting.push(stream);
        }
        self.answer_all();
    }

    /// Watches for the end of the process at the other end.
    fn watch(&mut self, stream: &UnixStream) {
        self.processes_total += 1;
        let Ok(process) = socket_peercred(stream) else { return };
        self.note_process_node(process.pid);
        let Ok(pidfd) = pidfd_open(process.pid, PidfdFlags::empty()) else { return };
        let token = Token(self.next);
        self.next += 1;
        if self.poll.registry().register(&mut SourceFd(&pidfd.as_raw_fd()), token, Interest::READABLE).is_ok() {
            self.step.iter_mut().for_each(|step| step.note(process.pid, token));
            self.processes.insert(token, pidfd);
        }
    }

    fn answer_all(&mut self) {
        let answer = match &self.stage {
            Stage::Joining(_) => return,
            Stage::Serving(served, roster) => ToProcess::Served {
                access: served.access().clone(),
                session: self.session.name(),
                node: roster.node,
                nodes: roster.nodes.len() as u32,
            },
            Stage::Alone(why) => ToProcess::Alone(why.clone()),
            Stage::Ended => ToProcess::Alone("the job has ended".into()),
        };
        let bytes = Answer { io: self.io.clone(), served: answer }.encode();
        for mut stream in self.waiting.drain(..) {
            // A process that has gone needs no answer.
            let _ = stream.write_all(&bytes);
        }
    }

    fn take_events(&mut self) {
        let events: Vec<Event> = self.events.try_iter().collect();
        for event in events {
            match (event, &mut self.stage) {
                (Event::Node(NodeEvent::Stop), _) => self.is_orphaned = true,
                (Event::Node(NodeEvent::Leave), _) => return self.finish(None),
                (Event::Node(NodeEvent::Reported(report)), Stage::Serving(..)) => self.send_report(report),
                (Event::Daemon(output), Stage::Serving(served, _)) => served.note_output(&output),
                _ => {}
            }
        }
    }

    /// Ends the daemon, unless it has ended, and sends the report.
    fn end(&mut self) {
        // If the front end lives, it removes the file.
        if let Some(job) = self.job_file.as_ref().filter(|_| self.is_front_lost) {
            file::remove(job);
        }
        self.finish(None);
        let deadline = Instant::now() + Duration::from_secs(2);
        while let Some(front) = &mut self.front
            && Instant::now() < deadline
        {
            match front.flush() {
                Ok(false) => thread::sleep(Duration::from_millis(5)),
                Ok(true) | Err(_) => return,
            }
        }
    }
}

/// Asks a daemon for its report as it is now.
fn ask_report(socket: &Path) -> Option<Report> {
    match client::ask(socket, protocol::Command::Report) {
        Ok(protocol::Answer::Report(report)) => Some(*report),
        _ => None,
    }
}

/// Sends [`NodeEvent::Stop`] if standard input ends before any further input, or [`NodeEvent::Leave`] as it asks.
fn watch_owner(events: Sender<Event>) -> Result<()> {
    thread::Builder::new().name("owner".into()).spawn(move || {
        let mut first = [0];
        let event = match io::stdin().read(&mut first) {
            Ok(0) | Err(_) => NodeEvent::Stop,
            Ok(_) if first == [LEAVE] => NodeEvent::Leave,
            Ok(_) => return,
        };
        // Without a receiver, the agent has ended already.
        let _ = events.send(Event::Node(event));
    })?;
    Ok(())
}

/// Returns a channel of events that wakes the loop.
fn forwarded(waker: Arc<Waker>) -> Result<(Sender<Event>, Receiver<Event>)> {
    let (sender, from) = channel::<Event>();
    let (to, events) = channel();
    thread::Builder::new().name("events".into()).spawn(move || {
        for event in from {
            if to.send(event).is_err() || waker.wake().is_err() {
                return;
            }
        }
    })?;
    Ok((sender, events))
}
