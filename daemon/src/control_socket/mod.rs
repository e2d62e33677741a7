//! The control socket, for statistics and for the commands `clear` and `refresh`.
//!
//! One request for each connection; see [`protocol`]. The event loop serves it, so nothing here blocks. Connections are
//! few, must send and receive quickly, and belong to this user or to root.

pub(crate) mod clear;
pub(crate) mod links;
mod path_text;
pub mod protocol;
mod refresh;
pub mod stats;

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use headwater_proto::Time;
use mio::net::{UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use rustix::net::sockopt::socket_peercred;

pub(crate) use self::clear::Clearings;
use self::protocol::{Answer, CONTROL_LINE_BYTES_MAX, CONTROL_PENDING_MS, CONTROL_VERSION, Command, Request, Response};
pub(crate) use self::refresh::Refreshes;

/// Connections at once; further ones receive an error.
const CONNECTIONS_MAX: usize = 16;
/// How long a peer may take to send its request, and then to receive the answer, in milliseconds.
const TIMEOUT_MS: Time = 5000;

/// The listening socket and its connections.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    listener: UnixListener,
    connections: HashMap<Token, Connection>,
    next_tick: Option<Time>,
}

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    state: State,
    /// When it times out, or the next sign of life is due.
    due: Time,
    received: Vec<u8>,
    sending: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its request is incomplete.
    Asking,
    /// Its request is being executed.
    Waiting,
    /// The answer is being sent.
    Answered,
}

impl ControlSocket {
    /// Listens at `socket`.
    pub(crate) fn listen(socket: &Path, registry: &Registry, token: Token) -> io::Result<ControlSocket> {
        // A killed predecessor may have left its socket.
        let _ = std::fs::remove_file(socket);
        let mut listener = UnixListener::bind(socket)?;
        std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600))?;
        registry.register(&mut listener, token, Interest::READABLE)?;
        Ok(ControlSocket { listener, connections: HashMap::new(), next_tick: None })
    }

    /// Accepts all waiting connections. `token` returns a new token for each.
    pub(crate) fn accept(&mut self, now: Time, registry: &Registry, mut token: impl FnMut() -> Token) {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => self.take_in(now, stream, registry, token()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::warn!(%error, "a control connection can't be accepted. Raise the limit of open files (ulimit -n)");
                    return;
                }
            }
        }
    }

    /// Returns true if this is the token of a connection.
    pub(crate) fn owns(&self, token: Token) -> bool {
        self.connections.contains_key(&token)
    }

    /// Receives and sends as far as possible. Returns a complete request, which needs one [`ControlSocket::answer`];
    /// its peer may be gone by then.
    pub(crate) fn ready(&mut self, now: Time, token: Token) -> Option<Command> {
        let connection = self.connections.get_mut(&token)?;
        match connection.receive() {
            Err(_) => self.end(token),
            Ok(None) => self.send(token),
            Ok(Some(line)) => match understood(&line) {
                Ok(command) => {
                    connection.state = State::Waiting;
                    connection.due = now + CONTROL_PENDING_MS;
                    self.schedule();
                    return Some(command);
                }
                Err(why) => self.answer(now, token, Answer::Error(why)),
            },
        }
        None
    }

    /// Answers a request; closes the connection once the answer is sent.
    pub(crate) fn answer(&mut self, now: Time, token: Token, answer: Answer) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        connection.put(answer);
        connection.state = State::Answered;
        connection.due = now + TIMEOUT_MS;
        self.schedule();
        self.send(token);
    }

    /// Sends signs of life to waiting peers, and closes connections that took too long.
    pub(crate) fn tick(&mut self, now: Time) {
        if self.next_tick.is_none_or(|tick| now < tick) {
            return;
        }
        let due = self.connections.iter_mut().filter(|(_, connection)| connection.due <= now);
        let due: Vec<Token> = due.map(|(token, _)| *token).collect();
        for token in due {
            let Some(connection) = self.connections.get_mut(&token) else { continue };
            // A peer that has not read the last sign of life is gone or hangs.
            if connection.state == State::Waiting && connection.sending.is_empty() {
                connection.put(Answer::Pending);
                connection.due = now + CONTROL_PENDING_MS;
                self.send(token);
            } else {
                self.end(token);
            }
        }
        self.schedule();
    }

    /// When [`ControlSocket::tick`] is due.
    pub(crate) fn next_tick(&self) -> Option<Time> {
        self.next_tick
    }

    fn take_in(&mut self, now: Time, mut stream: UnixStream, registry: &Registry, token: Token) {
        let user = rustix::process::geteuid();
        if !socket_peercred(&stream).is_ok_and(|peer| peer.uid == user || peer.uid.is_root()) {
            tracing::warn!("another user's process was turned away from the control socket");
            return;
        }
        let is_full = self.connections.len() >= CONNECTIONS_MAX;
        if is_full || registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE).is_err() {
            let text =
                format!("the daemon serves {CONNECTIONS_MAX} control connections already; try again in a moment");
            let _ = stream.write(&line(Answer::Error(text)));
            return;
        }
        let connection = Connection {
            stream,
            state: State::Asking,
            due: now + TIMEOUT_MS,
            received: Vec::new(),
            sending: Vec::new(),
        };
        self.connections.insert(token, connection);
        self.schedule();
    }

    /// Sends as far as possible; closes the connection if it is complete or broken.
    fn send(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let is_done = connection.send().map(|is_empty| is_empty && connection.state == State::Answered);
        if is_done.unwrap_or(true) {
            self.end(token);
        }
    }

    fn end(&mut self, token: Token) {
        self.connections.remove(&token);
        self.schedule();
    }

    fn schedule(&mut self) {
        self.next_tick = self.connections.values().map(|connection| connection.due).min();
    }
}

impl Connection {
    /// Reads. Returns a line once it is complete; an error ends the connection.
    fn receive(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut buffer = [0; 16 << 10];
        loop {
            let bytes = match self.stream.read(&mut buffer) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            };
            match self.state {
                State::Asking if bytes > 0 => {}
                State::Asking => return Err(io::ErrorKind::UnexpectedEof.into()),
                // The peer may have shut down its sending side alone; writing reveals it.
                _ if bytes == 0 => return Ok(None),
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
            let before = self.received.len();
            self.received.extend_from_slice(&buffer[..bytes]);
            if let Some(end) = self.received[before..].iter().position(|&b| b == b'\n') {
                self.received.truncate(before + end);
                return Ok(Some(std::mem::take(&mut self.received)));
            }
            if self.received.len() > CONTROL_LINE_BYTES_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }

    fn put(&mut self, answer: Answer) {
        self.sending.extend_from_slice(&line(answer));
    }

    /// Sends; returns true once all is sent.
    fn send(&mut self) -> io::Result<bool> {
        while !self.sending.is_empty() {
            match self.stream.write(&self.sending) {
                Ok(bytes) => drop(self.sending.drain(..bytes)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

fn line(answer: Answer) -> Vec<u8> {
    let mut line = serde_json::to_vec(&Response::from(answer)).expect("an answer is always encodable");
    line.push(b'\n');
    line
}

/// Returns the command in a line, or an error message.
fn understood(line: &[u8]) -> Result<Command, String> {
    #[derive(serde::Deserialize)]
    struct Version {
        version: u32,
    }
    let same_version = "use the headwater of the session's own version";
    match serde_json::from_slice::<Version>(line) {
        Ok(Version { version: CONTROL_VERSION }) => {}
        Ok(Version { version }) => {
            return Err(format!(
                "the daemon speaks version {CONTROL_VERSION} of the control protocol, not {version}: {same_version}"
            ));
        }
        Err(error) => return Err(format!("the daemon does not understand the request ({error}): {same_version}")),
    }
    let request: Result<Request, _> = serde_json::from_slice(line);
    request
        .map(|request| request.command)
        .map_err(|error| format!("the daemon does not understand the request ({error}): {same_version}"))
}
