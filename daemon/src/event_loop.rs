//! The daemon's one thread: readiness in, the node's inputs and outputs, timers.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use headwater_abi::table::Header;
use headwater_proto::{Forest, Input, Node, Output, Rank, Time};
use mio::{Events, Poll, Token, Waker};
use thiserror::Error;

use crate::clients::{ClientIds, Clients};
use crate::config::{Config, ConfigError};
use crate::control::{Command, Control};
use crate::control_socket::{About, Clearings, ControlSocket, Refreshes};
use headwater_store::Following;
use crate::generation::Generations;
use headwater_store::layout::NodeDir;
use crate::mounts;
use headwater_mount::Mount;
use headwater_overlay::{Addresses, Identity, Links, Transfers};
use crate::perform::Timeline;
use crate::preload::Preloading;
use crate::pressure::Pressure;
use crate::process;
use headwater_reader::{Opened, Pool};
use crate::recovery;
use crate::replicas::Replicating;
use crate::session::{Leaving, Session};
use crate::stats::Changed;
use headwater_store::Store;
use headwater_store::{Table, view};

const WAKER: Token = Token(0);
const CONTROL: Token = Token(1);
const TERMINATION: Token = Token(2);
const CLIENTS: Token = Token(3);
const PEERS: Token = Token(4);
const CONTROL_SOCKET: Token = Token(5);
const PRESSURE: Token = Token(6);
const FIRST_FREE: usize = 16;

/// Readiness taken in at once.
const EVENTS_MAX: usize = 256;
/// Messages, or pieces of news, between two looks at everything else.
const BATCH: usize = 64;
/// How long messages are taken in between two looks at everything else, in milliseconds: what is answered
/// has to be sent, or this node looks as if it hung.
const BATCH_MS_MAX: Time = 20;
/// Answers to the node's outputs between two looks at everything else.
const EXCHANGES_MAX: usize = 64;

/// Why a daemon could not run.
#[derive(Debug, Error)]
pub enum DaemonError {
    /// The configuration can't be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Something in the node's directory could not be made.
    #[error("can't {what} {}: {source}. Choose another directory with --store, or make room there", path.display())]
    Directory {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The operating system refused something else.
    #[error("can't {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

/// A running daemon.
pub(crate) struct Daemon {
    pub(crate) node: Node,
    pub(crate) store: Store,
    pub(crate) table: Table,
    pub(crate) clients: Clients,
    pub(crate) client_ids: ClientIds,
    pub(crate) mount: Option<Mount>,
    pub(crate) following: Following,
    pub(crate) control_socket: ControlSocket,
    pub(crate) about: About,
    pub(crate) clearings: Clearings,
    pub(crate) refreshes: Refreshes,
    /// There are no originals to be used in place of what has changed.
    pub(crate) is_standing: bool,
    pub(crate) generations: Generations,
    /// Originals that were found changed.
    pub(crate) changes: Changed,
    pub(crate) links: Links,
    pub(crate) transfers: Transfers,
    pub(crate) readers: Pool,
    pub(crate) timeline: Timeline,
    pub(crate) pressure: Pressure,
    pub(crate) preloading: Preloading,
    pub(crate) replicating: Replicating,
    /// What the node has yet to hear of its outputs.
    pub(crate) inbox: VecDeque<Input>,
    /// The content that came with the message that is being handled.
    pub(crate) brought: Vec<u8>,
    /// Outputs that wait until others have been sent what they wait for.
    pub(crate) put_off: VecDeque<Output>,
    pub(crate) depth: u32,
    pub(crate) dir: NodeDir,
    poll: Poll,
    started: Instant,
    next_token: usize,
    is_ready: bool,
    /// When it says that it is ready, though a parent is missing.
    ready_by: Time,
}

/// Runs the daemon until `control` or `termination` ends it, and leaves nothing behind. Writes
/// `{"ready":true}` and, when it was told to stop, its report to `output`.
pub(crate) fn serve(
    config: &Config,
    listener: TcpListener,
    opened: Opened,
    mut control: Control,
    termination: Option<OwnedFd>,
    output: &mut dyn Write,
) -> Result<(), DaemonError> {
    config.check()?;
    let session = Session::join(config)?;
    let mut daemon = Daemon::start(config, listener, opened)?;
    if config.recover {
        daemon.follow_again();
    }
    let register = |what| move |source| DaemonError::System { what, source };
    control.register(daemon.poll.registry(), CONTROL).map_err(register("watch standard input"))?;
    if let Some(pipe) = &termination {
        process::watch(pipe, daemon.poll.registry(), TERMINATION).map_err(register("watch for signals"))?;
    }
    let command = daemon.serve(&mut control, output);
    if command == Command::HandOver {
        if let Some(mount) = &daemon.mount {
            mount.hand_over();
        }
        return Ok(());
    }
    daemon.table.close();
    daemon.generations.close();
    daemon.clients.close();
    let report = daemon.report();
    daemon.replicating.end();
    // All else goes with the pattern.
    let Daemon { mount, mut table, .. } = daemon;
    let is_orphaned = command == Command::Orphaned;
    if is_orphaned && let Some(config) = &config.mount {
        // Fails where it is mounted in a namespace of its processes: there it goes with them.
        let _ = headwater_fuse::mount::unmount(&config.mount_point, true);
    }
    session.leave(if is_orphaned { Leaving::Orphaned } else { Leaving::Owned });
    if command == Command::Stop {
        tell(output, &report);
    } else if let Some(mut mount) = mount {
        mount.serve_originals(&mut table);
    }
    Ok(())
}

impl Daemon {
    fn start(config: &Config, listener: TcpListener, opened: Opened) -> Result<Daemon, DaemonError> {
        let system = |what| move |source: io::Error| DaemonError::System { what, source };
        let dir = config.dir();
        let scope = config.scope_paths()?;
        let poll = Poll::new().map_err(system("watch sockets"))?;
        let registry = poll.registry();
        let (node, mut store, table) = recovery::begin(config, &scope)?;
        let forest = config.forest();
        tell_whom_it_serves(&mut store, config);
        store.set_bytes_max(config.store_bytes_max);
        let device = store.device().map_err(failed("examine the store in", dir.path()))?;
        let header = header(&dir, &scope, device);
        let clients_max = process::descriptors_max() / 2;
        let clients = Clients::listen(&dir.socket(), registry, CLIENTS, clients_max, dir.generation())
            .map_err(failed("listen at", &dir.socket()))?;
        let control_socket = ControlSocket::listen(&dir.control(), registry, CONTROL_SOCKET)
            .map_err(failed("listen at", &dir.control()))?;
        let identity = Identity { rank: Rank(config.rank), forest, session: config.session, key: config.key.clone() };
        listener.set_nonblocking(true).map_err(system("listen for peers"))?;
        let listener = mio::net::TcpListener::from_std(listener);
        let mut links = Links::new(identity, listener, Addresses::new(&config.peers, &config.names), registry, PEERS)
            .map_err(system("listen for peers"))?;
        links.use_fabric(config.fabric.as_ref());
        let (content, is_own_disk) = (dir.root(), config.disk.is_some());
        let pressure = Pressure::start(config.store_bytes_max, (&content, is_own_disk), registry, PRESSURE);
        let waker = Arc::new(Waker::new(registry, WAKER).map_err(system("wake the event loop"))?);
        // Last, because a table without a daemon would make processes wait.
        let create = || Table::create(&dir.table(), config.geometry(), &header);
        let mut table = table.map_or_else(create, Ok).map_err(failed("create", &dir.table()))?;
        // Before threads are started that write content, and before a process can look into the table.
        let replicating = Replicating::start(config, &mut store, &mut table, &waker);
        dir.publish().map_err(failed("create", &dir.table_link()))?;
        let generations = if config.recover { Generations::find(&dir, &table) } else { Generations::default() };
        generations.directories().for_each(|dir| store.remember_generation(dir));
        let mount = mounts::start(config, &mut table, generations.tables(), &scope, store.blocks(), &waker)
            .map_err(system("serve the mounted file system"))?;
        Ok(Daemon {
            node,
            store,
            table,
            clients,
            client_ids: ClientIds::default(),
            mount,
            following: Following::default(),
            control_socket,
            about: About::new(config),
            clearings: Clearings::default(),
            refreshes: Refreshes::default(),
            is_standing: config.is_standing,
            generations,
            changes: Changed::default(),
            links,
            transfers: Transfers::default(),
            preloading: Preloading::start(config, &scope, &waker),
            readers: Pool::new(waker, opened, config.is_standing),
            timeline: Timeline::default(),
            pressure,
            replicating,
            inbox: VecDeque::new(),
            brought: Vec::new(),
            put_off: VecDeque::new(),
            depth: forest.depth_max(),
            ready_by: config.parent_wait_ms_max(),
            dir,
            poll,
            started: Instant::now(),
            next_token: FIRST_FREE,
            is_ready: false,
        })
    }

    /// Serves until it is told to stop.
    fn serve(&mut self, control: &mut Control, output: &mut dyn Write) -> Command {
        let mut events = Events::with_capacity(EVENTS_MAX);
        loop {
            self.tick();
            self.settle();
            self.announce(output);
            let timeout = self.timeout();
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    tracing::error!(%error, "the daemon can't watch its sockets and ends; processes use the originals");
                    return Command::Stop;
                }
                _ => {}
            }
            for event in &events {
                match event.token() {
                    WAKER => {}
                    TERMINATION => return Command::Stop,
                    CONTROL => {
                        while let Some(command) = control.command() {
                            if command != Command::Detach {
                                return command;
                            }
                        }
                    }
                    token => self.socket_ready(token),
                }
            }
            self.take_news();
            self.take_asks();
            self.take_questions();
            self.take_replicas();
            self.take_messages();
        }
    }

    /// Feeds the node and performs all that it wants.
    pub(crate) fn feed(&mut self, input: Input) {
        let now = self.now();
        self.node.handle(now, input);
        self.perform_outputs();
        self.answer_inbox();
    }

    /// Tells the node what came of its outputs; a long exchange goes on after everything else.
    fn answer_inbox(&mut self) {
        for _ in 0..EXCHANGES_MAX {
            let Some(input) = self.inbox.pop_front() else { return };
            let now = self.now();
            self.node.handle(now, input);
            self.perform_outputs();
        }
    }

    /// Milliseconds since the start.
    pub(crate) fn now(&self) -> Time {
        self.started.elapsed().as_millis() as Time
    }

    fn socket_ready(&mut self, token: Token) {
        let now = self.now();
        let Daemon { poll, next_token, clients, client_ids, control_socket, links, .. } = self;
        match token {
            CLIENTS => clients.accept(now, poll.registry(), || fresh(next_token)),
            PEERS => links.accept(now, poll.registry(), || fresh(next_token)),
            PRESSURE => self.pressure.woken(),
            CONTROL_SOCKET => control_socket.accept(now, poll.registry(), || fresh(next_token)),
            token if control_socket.owns(token) => {
                if let Some(command) = control_socket.ready(now, token) {
                    self.control(now, token, command);
                }
            }
            token if clients.owns(token) => {
                if let Some(input) = clients.readable(token, client_ids) {
                    self.feed(input);
                }
            }
            token => links.ready(now, token),
        }
    }

    fn tick(&mut self) {
        let now = self.now();
        let Daemon { poll, next_token, clients, control_socket, links, .. } = self;
        control_socket.tick(now);
        links.tick(now, poll.registry(), || fresh(next_token));
        let lost = if clients.next_tick().is_some_and(|tick| tick <= now) {
            // Those that found no free descriptor before.
            clients.accept(now, poll.registry(), || fresh(next_token));
            clients.tick(now)
        } else {
            Vec::new()
        };
        for input in lost {
            self.feed(input);
        }
        self.store.tick(now);
        self.go_on_clearing(now);
        self.look_at_generations(now);
        self.look_at_pressure(now);
        self.refresh_changed(now);
        for client in self.mount.as_mut().map(|mount| mount.try_again(now)).unwrap_or_default() {
            self.feed(Input::ClientGone { client });
        }
        if self.node.poll_timeout().is_some_and(|due| due <= now) {
            self.node.handle_timeout(now);
        }
    }

    /// Performs what is left to do, and hands what waits to the sockets.
    fn settle(&mut self) {
        self.perform_outputs();
        self.answer_inbox();
        self.hand_out_orders();
        let now = self.now();
        let store = &self.store;
        self.links
            .flush(now, &|content, bytes| store.read_ranges(&content.path, content.block, &content.ranges, bytes));
        self.catch_up();
    }

    fn announce(&mut self, output: &mut dyn Write) {
        if self.is_ready {
            return;
        }
        let (is_linked, is_late) = (self.links.has_parents(), self.now() >= self.ready_by);
        if is_linked || is_late {
            if !is_linked {
                tracing::warn!(
                    "not all daemons can be reached that this one asks; others are asked instead, and where there are none the processes use the originals"
                );
            }
            self.is_ready = true;
            tell(output, &Ready { ready: true });
        }
    }

    /// How long to wait for readiness: not at all if there is work left.
    fn timeout(&self) -> Option<Duration> {
        let is_asked = self.mount.as_ref().is_some_and(Mount::has_next);
        if self.links.has_next()
            || self.readers.has_news()
            || is_asked
            || self.preloading.has_next()
            || self.replicating.has_next()
            || !self.inbox.is_empty()
        {
            return Some(Duration::ZERO);
        }
        let ready = (!self.is_ready).then_some(self.ready_by);
        let due = [
            self.node.poll_timeout(),
            self.clients.next_tick(),
            self.control_socket.next_tick(),
            self.clearings.due(),
            self.refreshes.due(),
            self.generations.next_look(),
            self.next_look_at_pressure(),
            self.links.next_tick(),
            self.store.next_tick(),
            self.mount.as_ref().and_then(Mount::try_at),
            ready,
        ];
        let due = due.into_iter().flatten().min()?;
        Some(Duration::from_millis(due.saturating_sub(self.now())))
    }

    fn take_news(&mut self) {
        for _ in 0..BATCH {
            let Some(news) = self.readers.news() else { return };
            self.read(news);
        }
    }

    fn take_asks(&mut self) {
        for _ in 0..BATCH {
            let Some(asked) = self.mount.as_mut().and_then(Mount::next) else { return };
            self.asked(asked);
        }
    }

    fn take_messages(&mut self) {
        let end = self.now() + BATCH_MS_MAX;
        for _ in 0..BATCH {
            if !self.take_message() || self.now() > end {
                return;
            }
        }
    }
}

/// What the table tells every process.
fn header(dir: &NodeDir, scope: &[(bool, headwater_abi::Path)], store_dev: (u32, u32)) -> Header {
    Header {
        generation: dir.generation(),
        scope: scope.iter().map(|(included, path)| (*included, path.as_bytes().to_vec())).collect(),
        store: bytes_of(&dir.shown(&dir.root())),
        socket: bytes_of(&dir.socket()),
        counters: bytes_of(&dir.counters()),
        store_dev,
        view: view(),
    }
}

/// Tells the store who will read it, so that it keeps nothing for others.
fn tell_whom_it_serves(store: &mut Store, config: &Config) {
    if is_leaf(&config.forest(), Rank(config.rank)) {
        store.sends_nothing();
    }
    if config.mount.is_some() {
        store.serves_mount_alone();
    }
}

/// True if a rank sends to nobody while everybody lives.
fn is_leaf(forest: &Forest, rank: Rank) -> bool {
    forest.tree_ids().all(|tree| !forest.contains(tree, rank) || forest.children(tree, rank).is_empty())
}

#[derive(serde::Serialize)]
struct Ready {
    ready: bool,
}

/// One line of JSON. Whoever started the daemon may be gone: then nobody needs to know.
fn tell(output: &mut dyn Write, what: &impl serde::Serialize) {
    let line = serde_json::to_string(what).map_err(io::Error::other);
    if let Err(error) = line.and_then(|line| writeln!(output, "{line}").and_then(|()| output.flush())) {
        tracing::debug!(%error, "nobody reads the daemon's output");
    }
}

fn fresh(next: &mut usize) -> Token {
    *next += 1;
    Token(*next)
}

pub(crate) fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DaemonError {
    let path = path.to_owned();
    move |source| DaemonError::Directory { what, path, source }
}

fn bytes_of(path: &Path) -> Vec<u8> {
    path.as_os_str().as_encoded_bytes().to_vec()
}
