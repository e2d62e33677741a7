//! The socket for requests of this node's processes.
//!
//! One request for each connection; see `headwater_abi::client`. Connections are limited in number, belong to this user
//! and must send their request soon. While a request is pending, its process receives a sign of life every second.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Instant;

use headwater_abi::Want;
use headwater_abi::client::{Decoded, PENDING_INTERVAL_MS, REQUEST_BYTES, Request, Status, encode_reply};
use headwater_abi::path::PATH_BYTES_MAX;
use headwater_mount::Count;
use headwater_proto::{ClientId, Input, Time};
use mio::net::{UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use rustix::net::sockopt::socket_peercred;

/// How long a process may take to send its request, in milliseconds.
const REQUEST_TIMEOUT_MS: u64 = 5000;

/// Numbers all requests to the node, whatever their origin.
#[derive(Debug, Default)]
pub(crate) struct ClientIds(u64);

impl ClientIds {
    /// Returns an unused number.
    pub(crate) fn next(&mut self) -> ClientId {
        self.0 += 1;
        ClientId(self.0)
    }
}

/// The connected processes.
#[derive(Debug)]
pub(crate) struct Clients {
    listener: UnixListener,
    /// The user whose processes are served.
    user: rustix::process::Uid,
    clients: HashMap<Token, Client>,
    waiting: BTreeMap<ClientId, Token>,
    clients_max: usize,
    next_tick: Option<Time>,
    turned_away: u64,
    answered: Count,
    generation: u64,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    connected_at: Time,
    received: Vec<u8>,
    id: Option<ClientId>,
    asked_at: Instant,
}

impl Clients {
    /// Listens at `socket` for processes of `generation`, with at most `clients_max` connections.
    pub(crate) fn listen(
        socket: &Path,
        registry: &Registry,
        token: Token,
        clients_max: usize,
        generation: u64,
    ) -> io::Result<Clients> {
        let mut listener = UnixListener::bind(socket)?;
        registry.register(&mut listener, token, Interest::READABLE)?;
        Ok(Clients {
            listener,
            user: rustix::process::geteuid(),
            clients: HashMap::new(),
            waiting: BTreeMap::new(),
            clients_max,
            next_tick: None,
            turned_away: 0,
            answered: Count::default(),
            generation,
        })
    }

    /// Accepts all waiting connections. `token` returns a new token for each.
    pub(crate) fn accept(&mut self, now: Time, registry: &Registry, mut token: impl FnMut() -> Token) {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => self.take_in(now, stream, registry, token()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::warn!(%error, "a process can't be accepted and uses the source files. Raise the limit of open files (ulimit -n)");
                    self.next_tick.get_or_insert(now + PENDING_INTERVAL_MS);
                    return;
                }
            }
        }
    }

    /// Returns true if this is the token of a connection.
    pub(crate) fn owns(&self, token: Token) -> bool {
        self.clients.contains_key(&token)
    }

    /// Reads from a connection. Returns the node's input, if there is one.
    pub(crate) fn readable(&mut self, token: Token, ids: &mut ClientIds) -> Option<Input> {
        let client = self.clients.get_mut(&token)?;
        let mut buffer = [0; REQUEST_BYTES + PATH_BYTES_MAX];
        loop {
            match client.stream.read(&mut buffer) {
                Ok(0) => return self.gone(token),
                Ok(bytes) if client.id.is_none() => client.received.extend_from_slice(&buffer[..bytes]),
                Ok(_) => return self.gone(token),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(_) => return self.gone(token),
            }
            match Request::decode(&client.received) {
                Decoded::Incomplete => {}
                Decoded::Invalid => {
                    tracing::debug!("a process sent an invalid request, or one of another version");
                    return self.gone(token);
                }
                // An older generation learns nothing new, but changes by its processes concern all generations.
                Decoded::Request(request)
                    if request.generation != self.generation
                        && !request.want.intersects(Want::PASSTHROUGH | Want::UNAUDITED) =>
                {
                    self.end(token, Status::Fallback);
                    return None;
                }
                Decoded::Request(request) => {
                    let id = ids.next();
                    client.id = Some(id);
                    client.asked_at = Instant::now();
                    client.received = Vec::new();
                    self.waiting.insert(id, token);
                    return Some(Input::Request { client: id, path: request.path, want: request.want });
                }
            }
        }
    }

    /// Answers a request and closes its connection.
    pub(crate) fn reply(&mut self, id: ClientId, status: Status) {
        if let Some(token) = self.waiting.remove(&id) {
            if let Some(client) = self.clients.get(&token) {
                match status {
                    Status::Done => self.answered.asked += 1,
                    Status::Fallback => self.answered.from_original += 1,
                    Status::Pending => {}
                }
                self.answered.took(client.asked_at.elapsed());
            }
            self.end(token, status);
        }
    }

    /// If it is due, sends a sign of life to each waiting process, and closes connections without a request. Returns
    /// inputs for the node.
    pub(crate) fn tick(&mut self, now: Time) -> Vec<Input> {
        if self.next_tick.is_none_or(|tick| now < tick) {
            return Vec::new();
        }
        self.next_tick = None;
        let pending = encode_reply(Status::Pending);
        let is_lost = |client: &mut Client| match client.id {
            None => now >= client.connected_at + REQUEST_TIMEOUT_MS,
            Some(_) => !matches!(client.stream.write(&pending), Ok(bytes) if bytes == pending.len()),
        };
        let lost: Vec<Token> = self.clients.iter_mut().filter_map(|(t, c)| is_lost(c).then_some(*t)).collect();
        let inputs = lost.into_iter().filter_map(|token| self.gone(token)).collect();
        self.next_tick = (!self.clients.is_empty()).then_some(now + PENDING_INTERVAL_MS);
        inputs
    }

    /// When [`Clients::tick`] is due.
    pub(crate) fn next_tick(&self) -> Option<Time> {
        self.next_tick
    }

    /// Accepts requests of processes of this generation from now on.
    pub(crate) fn begin_generation(&mut self, generation: u64) {
        self.generation = generation;
    }

    /// Returns how requests were answered so far.
    pub(crate) fn answered(&self) -> &Count {
        &self.answered
    }

    /// Answers all processes with the fallback to the source files.
    pub(crate) fn close(&mut self) {
        let tokens: Vec<Token> = self.clients.keys().copied().collect();
        for token in tokens {
            self.end(token, Status::Fallback);
        }
        self.waiting.clear();
    }

    fn take_in(&mut self, now: Time, mut stream: UnixStream, registry: &Registry, token: Token) {
        if !socket_peercred(&stream).is_ok_and(|peer| peer.uid == self.user) {
            tracing::warn!("another user's process was turned away from the session's socket");
            return;
        }
        let is_full = self.clients.len() >= self.clients_max;
        if is_full || registry.register(&mut stream, token, Interest::READABLE).is_err() {
            if self.turned_away == 0 {
                tracing::warn!(
                    clients_max = self.clients_max,
                    "too many processes have requests at once; some use the source files. Raise the limit of open files (ulimit -n)"
                );
            }
            self.turned_away += 1;
            let _ = stream.write(&encode_reply(Status::Fallback));
            return;
        }
        self.next_tick.get_or_insert(now + PENDING_INTERVAL_MS);
        self.clients.insert(
            token,
            Client { stream, connected_at: now, received: Vec::new(), id: None, asked_at: Instant::now() },
        );
    }

    fn end(&mut self, token: Token, status: Status) {
        if let Some(mut client) = self.clients.remove(&token) {
            // A socket that can't take twelve bytes is not being read; closing it answers too.
            let _ = client.stream.write(&encode_reply(status));
        }
    }

    fn gone(&mut self, token: Token) -> Option<Input> {
        let id = self.clients.remove(&token)?.id?;
        self.waiting.remove(&id);
        Some(Input::ClientGone { client: id })
    }
}
