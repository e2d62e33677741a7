//! The daemon's one thread: readiness in, the node's inputs and outputs, timers.

use std::io::{self, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::time::Duration;

use headwater_mount::Mount;
use headwater_proto::{Input, Time};
use headwater_reader::Opened;
use mio::{Events, Token};

use crate::config::Config;
use crate::control::{Command, Control};
use crate::drive::tokens::{CLIENTS, CONTROL, CONTROL_SOCKET, PEERS, PRESSURE, TERMINATION, WAKER};
use crate::drive::{Daemon, Frontends, Reactor};
use crate::error::DaemonError;
use crate::process;
use crate::session::{Leaving, Session};

/// Readiness events of one poll.
const EVENTS_MAX: usize = 256;
/// Messages, or events of one kind, before the others.
const BATCH: usize = 64;
/// How long messages are received before other events are handled, in milliseconds. Answers must be sent in time, or
/// this node seems to hang.
const BATCH_MS_MAX: Time = 20;

/// Runs the daemon until `control` or `termination` ends it, and removes what it made. Writes `{"ready":true}` to
/// `output` and, after a stop command, the report.
pub(crate) fn serve(
    config: &Config,
    listeners: Vec<TcpListener>,
    opened: Opened,
    mut control: Control,
    termination: Option<OwnedFd>,
    output: &mut dyn Write,
) -> Result<(), DaemonError> {
    config.check()?;
    let session = Session::join(config)?;
    let mut daemon = Daemon::start(config, listeners, opened)?;
    if config.recover {
        daemon.follow_again();
    }
    let register = |what| move |source| DaemonError::System { what, source };
    control.register(daemon.reactor.poll.registry(), CONTROL).map_err(register("watch standard input"))?;
    if let Some(pipe) = &termination {
        process::watch(pipe, daemon.reactor.poll.registry(), TERMINATION).map_err(register("watch for signals"))?;
    }
    let command = daemon.serve(&mut control, output);
    if command == Command::HandOver {
        if let Some(mount) = &daemon.frontends.mount {
            mount.hand_over();
        }
        return Ok(());
    }
    daemon.content.table.close();
    daemon.content.generations.close();
    daemon.frontends.clients.close();
    let report = daemon.report();
    if command == Command::Stop {
        daemon.write_used();
    }
    if let Some(path) = config.report_to.as_ref().filter(|_| command == Command::Stop) {
        daemon.write_records(path);
    }
    daemon.housekeeping.replicating.end();
    if command == Command::Stop {
        daemon.housekeeping.keeping.end();
    }
    let (mount, mut table) = (daemon.frontends.mount, daemon.content.table);
    let is_orphaned = command == Command::Orphaned;
    if is_orphaned && let Some(config) = &config.mount {
        // Fails for a mount in a namespace, which disappears with its processes.
        let _ = headwater_fuse::mount::unmount(&config.mount_point, true);
    }
    session.leave(if is_orphaned { Leaving::Orphaned } else { Leaving::Owned });
    if command == Command::Stop {
        print_line(output, &report);
    } else if let Some(mut mount) = mount {
        mount.serve_from_source(&mut table);
    }
    Ok(())
}

impl Daemon {
    /// Serves until a command ends it.
    fn serve(&mut self, control: &mut Control, output: &mut dyn Write) -> Command {
        let mut events = Events::with_capacity(EVENTS_MAX);
        loop {
            self.tick();
            // A job without a thread would never be answered, and its clients would wait.
            if let Err(error) = self.settle() {
                tracing::error!(%error, "no thread can be started to read the shared file system: the daemon ends, and processes use the source files. Raise the limit of processes (ulimit -u)");
                return Command::Stop;
            }
            self.announce(output);
            let timeout = self.timeout();
            match self.reactor.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    tracing::error!(%error, "the daemon can't watch its sockets and ends; processes use the source files");
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
            self.take_read_events();
            self.take_worker_events();
            self.take_questions();
            self.take_replicas();
            self.take_messages();
        }
    }

    fn socket_ready(&mut self, token: Token) {
        let now = self.now();
        let (Reactor { poll, next_token, .. }, Frontends { clients, client_ids, control_socket, .. }) =
            (&mut self.reactor, &mut self.frontends);
        let links = &mut self.content.links;
        match token {
            CLIENTS => clients.accept(now, poll.registry(), || fresh(next_token)),
            PEERS => links.accept(now, poll.registry(), || fresh(next_token)),
            PRESSURE => self.housekeeping.pressure.woken(),
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
        let (Reactor { poll, next_token, .. }, Frontends { clients, control_socket, .. }) =
            (&mut self.reactor, &mut self.frontends);
        let links = &mut self.content.links;
        control_socket.tick(now);
        links.tick(now, poll.registry(), || fresh(next_token));
        let lost = if clients.next_tick().is_some_and(|tick| tick <= now) {
            // Connections for which there was no free descriptor before.
            clients.accept(now, poll.registry(), || fresh(next_token));
            clients.tick(now)
        } else {
            Vec::new()
        };
        for input in lost {
            self.feed(input);
        }
        self.content.store.tick(now);
        self.record_state();
        self.continue_clearing(now);
        self.check_generations(now);
        self.check_pressure(now);
        self.refresh_changed(now);
        for client in self.frontends.mount.as_mut().map(|mount| mount.try_again(now)).unwrap_or_default() {
            self.feed(Input::ClientGone { client });
        }
        if self.driver.node.poll_timeout().is_some_and(|due| due <= now) {
            self.driver.node.handle_timeout(now);
        }
    }

    /// Executes pending outputs, and flushes the links. Fails if nothing can read the shared file system.
    fn settle(&mut self) -> io::Result<()> {
        self.execute_outputs();
        self.answer_inbox();
        self.content.readers.hand_out()?;
        let now = self.now();
        let store = &self.content.store;
        self.content
            .links
            .flush(now, &|content, bytes| store.read_ranges(&content.path, content.block, &content.ranges, bytes));
        self.flush_deferred();
        Ok(())
    }

    fn announce(&mut self, output: &mut dyn Write) {
        if self.reactor.is_ready {
            return;
        }
        if self.content.links.has_dialled_all() || self.now() >= self.reactor.ready_by {
            if !self.content.links.has_parents() {
                tracing::warn!(
                    "not all parent daemons can be reached; other ancestors are used instead, or the source files if none is reachable. Check the network between the nodes"
                );
            }
            self.reactor.is_ready = true;
            print_line(output, &Ready { ready: true });
        }
    }

    /// Returns how long to wait for readiness: not at all while work is pending.
    fn timeout(&self) -> Option<Duration> {
        let has_worker_events = self.frontends.mount.as_ref().is_some_and(Mount::has_next);
        if self.content.links.has_next()
            || self.content.readers.has_events()
            || has_worker_events
            || self.housekeeping.preloading.has_next()
            || self.housekeeping.replicating.has_next()
            || !self.driver.inbox.is_empty()
        {
            return Some(Duration::ZERO);
        }
        let ready = (!self.reactor.is_ready).then_some(self.reactor.ready_by);
        let due = [
            self.driver.node.poll_timeout(),
            self.frontends.clients.next_tick(),
            self.frontends.control_socket.next_tick(),
            self.frontends.clearings.due,
            self.frontends.refreshes.due,
            self.content.generations.next_check,
            self.next_pressure_check(),
            self.content.links.next_tick(),
            self.content.store.next_tick(),
            self.frontends.mount.as_ref().and_then(Mount::try_at),
            ready,
        ];
        let due = due.into_iter().flatten().min()?;
        Some(Duration::from_millis(due.saturating_sub(self.now())))
    }

    fn take_read_events(&mut self) {
        for _ in 0..BATCH {
            let Some(event) = self.content.readers.next_event() else { return };
            self.read(event);
        }
    }

    fn take_worker_events(&mut self) {
        for _ in 0..BATCH {
            let Some(event) = self.frontends.mount.as_mut().and_then(Mount::next_event) else { return };
            self.worker_event(event);
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

#[derive(serde::Serialize)]
struct Ready {
    ready: bool,
}

/// Writes a line of JSON. The starter of the daemon may be gone; then the line is lost.
fn print_line(output: &mut dyn Write, what: &impl serde::Serialize) {
    let line = serde_json::to_string(what).map_err(io::Error::other);
    if let Err(error) = line.and_then(|line| writeln!(output, "{line}").and_then(|()| output.flush())) {
        tracing::debug!(%error, "the daemon's output can't be written");
    }
}

fn fresh(next: &mut usize) -> Token {
    *next += 1;
    Token(*next)
}
