//! The front end: a server to which a job's nodes connect and report. It is a thread of `headwater run` while the
//! launcher runs, or of the background process of `headwater start`.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Result;
use headwater_daemon::{SessionId, SessionKey};
use headwater_overlay::channel::Channel;
use headwater_topology::hosts::Hostlist;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::client::{receive, send};
use super::membership::{Arrival, Membership, MembershipState, Time};
use super::messages::{FromNode, Roster, ToNode};
use super::ports::{Ports, listen};
use crate::rendezvous::events::NodeEvent;
use crate::session::events::Event;
use crate::topology::options::{ShapeOptions, local_nodes};
use crate::topology::{Arrangement, switches};

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
/// How long closing waits until the summaries are sent.
const CLOSE_MAX: Duration = Duration::from_secs(2);
/// Limit of unauthenticated connections; beyond it, the oldest is closed.
const UNAUTHENTICATED_MAX: usize = 256;

/// A command to the front end's thread.
enum Command {
    /// Notifies the nodes of the end.
    End,
    /// Sends the session's summary to the peers that requested its end.
    SendSummary(String),
}

/// The front end.
#[derive(Debug)]
pub struct Front {
    /// Its addresses: one for each address of this machine.
    pub addresses: Vec<SocketAddr>,
    waker: Arc<Waker>,
    commands: Sender<Command>,
    thread: JoinHandle<()>,
}

impl Front {
    /// Starts the server. Changes of the nodes are sent as `events`.
    pub fn open(
        session: SessionId,
        key: SessionKey,
        shape: ShapeOptions,
        ports: Option<Ports>,
        events: Sender<Event>,
    ) -> Result<Front> {
        let listener = listen(ports)?;
        listener.set_nonblocking(true)?;
        let mut listener = TcpListener::from_std(listener);
        let port = listener.local_addr()?.port();
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let (commands, received) = channel();
        let server = RendezvousServer {
            session,
            key,
            shape,
            events,
            poll,
            listener,
            peers: HashMap::new(),
            next: WAKER.0 + 1,
            membership: Membership::default(),
            tokens: Vec::new(),
            is_settled: false,
            started: Instant::now(),
        };
        let thread = thread::Builder::new().name("front end".into()).spawn(move || server.serve(&received))?;
        let addresses = own_addresses().into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
        Ok(Front { addresses, waker, commands, thread })
    }

    /// Raises this process's limit of connections. Its later children inherit the limit.
    pub fn expect_many(&self) {
        let limit = getrlimit(Resource::Nofile);
        // If this fails, nodes beyond the limit use the source files.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    }

    /// Notifies the nodes of the end.
    pub fn end(&self) {
        self.send_command(Command::End);
    }

    /// Sends the summary to the peers that requested the end, and closes all connections.
    pub fn close(self, summary: String) {
        self.send_command(Command::SendSummary(summary));
        let Front { thread, .. } = self;
        // If the thread panicked, no summary is sent.
        let _ = thread.join();
    }

    fn send_command(&self, command: Command) {
        if self.commands.send(command).is_ok() {
            let _ = self.waker.wake();
        }
    }
}

/// Returns this machine's IPv4 addresses; the loopback address is the last. The listener uses IPv4.
fn own_addresses() -> Vec<IpAddr> {
    let all = if_addrs::get_if_addrs().unwrap_or_default();
    let others = all.iter().filter(|one| !one.is_loopback()).map(|one| one.ip());
    let mut own: Vec<IpAddr> = others.filter(IpAddr::is_ipv4).collect();
    own.push(Ipv4Addr::LOCALHOST.into());
    own
}

/// The front end's thread.
struct RendezvousServer {
    session: SessionId,
    key: SessionKey,
    shape: ShapeOptions,
    events: Sender<Event>,
    poll: Poll,
    listener: TcpListener,
    peers: HashMap<Token, Peer>,
    next: usize,
    membership: Membership,
    /// Node tokens in order of arrival.
    tokens: Vec<Token>,
    /// The roster has been sent.
    is_settled: bool,
    started: Instant,
}

struct Peer {
    channel: Channel,
    /// The address of this machine that it connected to; `None` for a node on this machine.
    local_address: Option<IpAddr>,
    /// The node's number, once membership is decided.
    node: Option<u32>,
    role: Role,
}

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Unknown,
    Node,
    Launch,
    Stopper,
}

impl RendezvousServer {
    fn serve(mut self, commands: &Receiver<Command>) {
        let mut ready = Events::with_capacity(256);
        loop {
            let timeout = self.settle();
            match self.poll.poll(&mut ready, timeout) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return,
                _ => {}
            }
            for event in &ready {
                match event.token() {
                    LISTENER => self.accept(),
                    WAKER => {}
                    token => self.receive(token),
                }
            }
            loop {
                match commands.try_recv() {
                    Ok(Command::End) => self.send_to_all(Role::Node, &ToNode::End),
                    Ok(Command::SendSummary(summary)) => return self.close(summary),
                    Err(TryRecvError::Disconnected) => return,
                    Err(TryRecvError::Empty) => break,
                }
            }
        }
    }

    /// Sends the summary, and waits until it is sent.
    fn close(mut self, summary: String) {
        self.send_to_all(Role::Stopper, &ToNode::Ended(summary));
        let deadline = Instant::now() + CLOSE_MAX;
        let mut stoppers: Vec<Peer> = self.peers.into_values().filter(|peer| peer.role == Role::Stopper).collect();
        let mut ready = Events::with_capacity(64);
        while !stoppers.is_empty() && Instant::now() < deadline {
            stoppers.retain_mut(|peer| matches!(peer.channel.flush(), Ok(false)));
            if !stoppers.is_empty() && self.poll.poll(&mut ready, Some(CLOSE_MAX)).is_err() {
                return;
            }
        }
    }

    fn now(&self) -> Time {
        self.started.elapsed().as_millis() as Time
    }

    fn accept(&mut self) {
        while let Ok((mut stream, remote)) = self.listener.accept() {
            let unauthenticated =
                || self.peers.iter().filter(|(_, peer)| !peer.channel.is_proven()).map(|(token, _)| *token);
            if unauthenticated().count() >= UNAUTHENTICATED_MAX
                && let Some(oldest) = unauthenticated().min()
            {
                self.peers.remove(&oldest);
            }
            let token = Token(self.next);
            self.next += 1;
            let interest = Interest::READABLE | Interest::WRITABLE;
            if self.poll.registry().register(&mut stream, token, interest).is_ok() {
                let local = stream.local_addr().map_or(remote.ip(), |local| local.ip());
                let local_address = (local != remote.ip()).then_some(local);
                let channel = Channel::accept(stream, self.session, &self.key);
                self.peers.insert(token, Peer { channel, local_address, node: None, role: Role::Unknown });
            }
        }
    }

    fn receive(&mut self, token: Token) {
        loop {
            let Some(peer) = self.peers.get_mut(&token) else { return };
            match receive(&mut peer.channel) {
                Ok(None) => return,
                Ok(Some(message)) => self.handle(token, message),
                Err(_) => return self.disconnected(token),
            }
        }
    }

    fn handle(&mut self, token: Token, message: FromNode) {
        let now = self.now();
        let Some(peer) = self.peers.get_mut(&token) else { return };
        match (message, peer.node) {
            (FromNode::Launching, None) if peer.role == Role::Unknown => {
                peer.role = Role::Launch;
                self.send(token, &ToNode::Welcome);
                self.report_launches();
            }
            (FromNode::Stop, None) if peer.role == Role::Unknown => {
                peer.role = Role::Stopper;
                self.report(NodeEvent::Stop);
            }
            // A node registers again when it knows more about itself.
            (FromNode::Here(arrival), None) if !self.is_settled && matches!(peer.role, Role::Unknown | Role::Node) => {
                peer.role = Role::Node;
                match self.membership.arrive(now, arrival) {
                    Some(index) if index < self.tokens.len() => self.tokens[index] = token,
                    Some(_) => self.tokens.push(token),
                    None => self.send(token, &ToNode::TooLate),
                }
            }
            (FromNode::Here(_), None) if peer.role == Role::Unknown => {
                peer.role = Role::Node;
                self.send(token, &ToNode::TooLate);
            }
            (message, Some(node)) => self.report(NodeEvent::Message(node, message)),
            (_, None) => {}
        }
    }

    fn disconnected(&mut self, token: Token) {
        let Some(peer) = self.peers.remove(&token) else { return };
        match peer.node {
            Some(node) => self.report(NodeEvent::Disconnected(node)),
            None if peer.role == Role::Launch => self.report_launches(),
            None => {
                if let Some(index) = self.tokens.iter().position(|&other| other == token) {
                    self.tokens.remove(index);
                    self.membership.leave(index);
                }
            }
        }
    }

    /// Sends the roster once membership is decided. Returns the time until the next check.
    fn settle(&mut self) -> Option<Duration> {
        if self.is_settled {
            return None;
        }
        let now = self.now();
        let missing = match self.membership.state(now) {
            MembershipState::Empty => return None,
            MembershipState::Waiting(until) => return Some(Duration::from_millis(until - now)),
            MembershipState::Complete => 0,
            MembershipState::Incomplete(missing) => missing,
        };
        self.is_settled = true;
        let count = self.tokens.len() as u32;
        self.report(NodeEvent::Members { count, missing, has_io: self.membership.has_io_everywhere() });
        self.report_interfaces();
        let order = self.membership.order();
        let io_everywhere = self.membership.has_io_everywhere();
        let arrangement = self.arrange(&order);
        let addresses: Vec<SocketAddr> =
            arrangement.nodes.iter().map(|&node| self.address(order[node as usize])).collect();
        let interfaces = self.interfaces(arrangement.nodes.iter().map(|&node| order[node as usize]));
        let names = self.names(arrangement.nodes.iter().map(|&node| order[node as usize]));
        for (node, &index) in (0..).zip(&order) {
            let token = self.tokens[index];
            if let Some(peer) = self.peers.get_mut(&token) {
                peer.node = Some(node);
            }
            let Arrangement { nodes, servers, shape, .. } = arrangement.clone();
            let (addresses, interfaces) = (addresses.clone(), interfaces.clone());
            let names = names.clone();
            let roster = Roster { node, nodes, addresses, names, interfaces, servers, shape, io_everywhere };
            self.send(token, &ToNode::Roster(roster));
        }
        None
    }

    /// Returns the address of a node's daemon for the other nodes. A node on this machine may have a loopback address,
    /// so it gets the address by which others have reached this machine.
    fn address(&self, index: usize) -> SocketAddr {
        let Arrival { address, ref interfaces, .. } = self.membership.arrivals()[index];
        if !interfaces.is_empty() {
            return address;
        }
        let local_address = |token: &Token| self.peers.get(token).and_then(|peer| peer.local_address);
        let is_here = local_address(&self.tokens[index]).is_none();
        let by_others = is_here.then(|| self.tokens.iter().find_map(local_address)).flatten();
        by_others.map_or(address, |ip| SocketAddr::new(ip, address.port()))
    }

    /// Returns all addresses of the nodes with these indices, if the links use interfaces that the user named. A node
    /// without any has its one address.
    fn interfaces(&self, indices: impl Iterator<Item = usize>) -> Vec<Vec<SocketAddr>> {
        if self.membership.arrivals().iter().all(|arrival| arrival.interfaces.is_empty()) {
            return Vec::new();
        }
        let interfaces = |index: usize| match &self.membership.arrivals()[index].interfaces {
            none if none.is_empty() => vec![self.address(index)],
            interfaces => interfaces.clone(),
        };
        indices.map(interfaces).collect()
    }

    /// Returns the names of the nodes with these indices, as a hostlist; an empty text if they are none.
    fn names(&self, indices: impl Iterator<Item = usize>) -> String {
        let names = indices.map(|index| &*self.membership.arrivals()[index].name);
        Hostlist::from_names(names).map(|hosts| hosts.to_string()).unwrap_or_default()
    }

    /// Reports the nodes that lack interfaces.
    fn report_interfaces(&self) {
        let lacking = || self.membership.arrivals().iter().filter(|arrival| !arrival.interfaces_missing.is_empty());
        let Some(Arrival { name, interfaces_missing, .. }) = lacking().next() else { return };
        let without = lacking().filter(|arrival| arrival.interfaces.is_empty()).count() as u32;
        let (names, nodes) = (interfaces_missing.join(", "), lacking().count() as u32);
        self.report(NodeEvent::InterfacesMissing { node: name.clone(), names, nodes, without });
    }

    /// Returns ranks and trees by the user's options, or by default if the options don't fit these nodes.
    fn arrange(&self, order: &[usize]) -> Arrangement {
        let names: Vec<&str> = order.iter().map(|&index| self.membership.arrivals()[index].name.as_str()).collect();
        let numbered = local_nodes(order.len() as u32);
        let hosts = names.join(",").parse::<Hostlist>().ok().filter(|hosts| hosts.len() == order.len());
        let hosts = hosts.unwrap_or_else(|| numbered.clone());
        let arranged = Arrangement::new(&self.shape, &hosts, switches(&self.shape).as_ref());
        arranged.or_else(|_| Arrangement::new(&ShapeOptions::default(), &numbered, None)).expect("any nodes have trees")
    }

    fn report_launches(&self) {
        self.report(NodeEvent::Launches(self.peers.values().filter(|peer| peer.role == Role::Launch).count() as u32));
    }

    fn send_to_all(&mut self, role: Role, message: &ToNode) {
        let tokens: Vec<Token> =
            self.peers.iter().filter(|(_, peer)| peer.role == role).map(|(token, _)| *token).collect();
        for token in tokens {
            self.send(token, message);
        }
    }

    fn send(&mut self, token: Token, message: &ToNode) {
        let Some(peer) = self.peers.get_mut(&token) else { return };
        if send(&mut peer.channel, message).is_err() {
            self.disconnected(token);
        }
    }

    fn report(&self, event: NodeEvent) {
        // The receiver is gone once the run has ended.
        let _ = self.events.send(Event::Node(event));
    }
}
