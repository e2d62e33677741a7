//! The front end: where a job's nodes meet, and report. It is a thread of `headwater run`, for as long as the
//! launcher runs, or of the process that `headwater start` leaves behind.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Result;
use headwater_daemon::{SessionId, SessionKey};
use headwater_overlay::channel::{Channel, ChannelError};
use headwater_topology::hosts::Hostlist;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::membership::{Membership, Time, Verdict};
use super::messages::{FromNode, Roster, ToNode};
use super::ports::{Ports, listen};
use crate::rendezvous::events::News;
use crate::session::events::Event;
use crate::topology::options::{ShapeOptions, local_nodes};
use crate::topology::{Arrangement, switches};

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
/// How long those who wait for the end may take to hear of it.
const CLOSE_MAX: Duration = Duration::from_secs(2);
/// Connections that have not proved that they know the key; of more, the oldest is closed.
const STRANGERS_MAX: usize = 256;

/// What the front end's thread is to do.
enum Order {
    /// Tell the nodes that it is over.
    End,
    /// Tell who wanted that what the session did.
    Answer(String),
}

/// The front end.
#[derive(Debug)]
pub struct Front {
    /// Where it listens, on each of this machine's addresses.
    pub addresses: Vec<SocketAddr>,
    waker: Arc<Waker>,
    orders: Sender<Order>,
    thread: JoinHandle<()>,
}

impl Front {
    /// Listens, and answers nodes from now on. What becomes of them comes as events.
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
        let (orders, ordered) = channel();
        let server = RendezvousServer {
            session,
            key,
            shape,
            events,
            poll,
            listener,
            guests: HashMap::new(),
            next: WAKER.0 + 1,
            membership: Membership::default(),
            tokens: Vec::new(),
            is_settled: false,
            started: Instant::now(),
        };
        let thread = thread::Builder::new().name("front end".into()).spawn(move || server.serve(&ordered))?;
        let addresses = own_addresses().into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
        Ok(Front { addresses, waker, orders, thread })
    }

    /// Lets this process have as many connections as it may. What it starts from now on has that limit too.
    pub fn expect_many(&self) {
        let limit = getrlimit(Resource::Nofile);
        // Without it, who comes beyond the limit uses the originals.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    }

    /// Tells the nodes that it is over.
    pub fn end(&self) {
        self.order(Order::End);
    }

    /// Tells who wanted the session to end what it did, and closes all connections.
    pub fn close(self, summary: String) {
        self.order(Order::Answer(summary));
        let Front { thread, .. } = self;
        // One that has panicked has told nobody.
        let _ = thread.join();
    }

    fn order(&self, order: Order) {
        if self.orders.send(order).is_ok() {
            let _ = self.waker.wake();
        }
    }
}

/// The addresses at which other machines may reach this one, and at last the one at which only itself does. Ports
/// are listened on by IPv4.
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
    guests: HashMap<Token, Guest>,
    next: usize,
    membership: Membership,
    /// Whose place in the order of coming it is.
    tokens: Vec<Token>,
    /// The roster has been sent.
    is_settled: bool,
    started: Instant,
}

struct Guest {
    channel: Channel,
    /// The address at which it has reached this machine; `None` for a node on this machine.
    called: Option<IpAddr>,
    /// The node's number, once all are there.
    node: Option<u32>,
    role: Role,
}

/// Why somebody has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Unknown,
    Node,
    Launch,
    Stopper,
}

impl RendezvousServer {
    fn serve(mut self, ordered: &Receiver<Order>) {
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
                    token => self.hear(token),
                }
            }
            loop {
                match ordered.try_recv() {
                    Ok(Order::End) => self.tell_all(Role::Node, &ToNode::End),
                    Ok(Order::Answer(summary)) => return self.close(summary),
                    Err(TryRecvError::Disconnected) => return,
                    Err(TryRecvError::Empty) => break,
                }
            }
        }
    }

    /// Tells the last, and waits until it is sent.
    fn close(mut self, summary: String) {
        self.tell_all(Role::Stopper, &ToNode::Ended(summary));
        let deadline = Instant::now() + CLOSE_MAX;
        let mut stoppers: Vec<Guest> = self.guests.into_values().filter(|guest| guest.role == Role::Stopper).collect();
        let mut ready = Events::with_capacity(64);
        while !stoppers.is_empty() && Instant::now() < deadline {
            stoppers.retain_mut(|guest| matches!(guest.channel.flush(), Ok(false)));
            if !stoppers.is_empty() && self.poll.poll(&mut ready, Some(CLOSE_MAX)).is_err() {
                return;
            }
        }
    }

    fn now(&self) -> Time {
        self.started.elapsed().as_millis() as Time
    }

    fn accept(&mut self) {
        while let Ok((mut stream, peer)) = self.listener.accept() {
            let strangers =
                || self.guests.iter().filter(|(_, guest)| !guest.channel.is_proven()).map(|(token, _)| *token);
            if strangers().count() >= STRANGERS_MAX
                && let Some(oldest) = strangers().min()
            {
                self.guests.remove(&oldest);
            }
            let token = Token(self.next);
            self.next += 1;
            let interest = Interest::READABLE | Interest::WRITABLE;
            if self.poll.registry().register(&mut stream, token, interest).is_ok() {
                let here = stream.local_addr().map_or(peer.ip(), |here| here.ip());
                let called = if here == peer.ip() { None } else { Some(here) };
                let channel = Channel::accept(stream, self.session, &self.key);
                self.guests.insert(token, Guest { channel, called, node: None, role: Role::Unknown });
            }
        }
    }

    fn hear(&mut self, token: Token) {
        loop {
            let Some(guest) = self.guests.get_mut(&token) else { return };
            let heard = guest.channel.next_line();
            let flushed = guest.channel.flush();
            match heard.and_then(|line| flushed.map(|_| line)) {
                Ok(None) => return,
                Ok(Some(line)) => match serde_json::from_str(&line) {
                    Ok(message) => self.said(token, message),
                    Err(_) => return self.gone(token, &ChannelError::Line),
                },
                Err(error) => return self.gone(token, &error),
            }
        }
    }

    fn said(&mut self, token: Token, message: FromNode) {
        let now = self.now();
        let Some(guest) = self.guests.get_mut(&token) else { return };
        match (message, guest.node) {
            (FromNode::Launching, None) if guest.role == Role::Unknown => {
                guest.role = Role::Launch;
                self.tell(token, &ToNode::Welcome);
                self.tell_launches();
            }
            (FromNode::Stop, None) if guest.role == Role::Unknown => {
                guest.role = Role::Stopper;
                self.event(News::Stop);
            }
            // A node says so again when it knows more of itself.
            (FromNode::Here(arrival), None) if !self.is_settled && matches!(guest.role, Role::Unknown | Role::Node) => {
                guest.role = Role::Node;
                match self.membership.arrive(now, arrival) {
                    Some(place) if place < self.tokens.len() => self.tokens[place] = token,
                    Some(_) => self.tokens.push(token),
                    None => self.tell(token, &ToNode::TooLate),
                }
            }
            (FromNode::Here(_), None) if guest.role == Role::Unknown => {
                guest.role = Role::Node;
                self.tell(token, &ToNode::TooLate);
            }
            (message, Some(node)) => self.event(News::Said(node, message)),
            (_, None) => {}
        }
    }

    fn gone(&mut self, token: Token, _error: &ChannelError) {
        let Some(guest) = self.guests.remove(&token) else { return };
        match guest.node {
            Some(node) => self.event(News::Gone(node)),
            None if guest.role == Role::Launch => self.tell_launches(),
            None => {
                if let Some(place) = self.tokens.iter().position(|&other| other == token) {
                    self.tokens.remove(place);
                    self.membership.leave(place);
                }
            }
        }
    }

    /// Sends the roster once all are there; how long to wait at most until that is to be looked at again.
    fn settle(&mut self) -> Option<Duration> {
        if self.is_settled {
            return None;
        }
        let now = self.now();
        let missing = match self.membership.verdict(now) {
            Verdict::Nobody => return None,
            Verdict::Wait(until) => return Some(Duration::from_millis(until - now)),
            Verdict::Complete => 0,
            Verdict::Without(missing) => missing,
        };
        self.is_settled = true;
        let count = self.tokens.len() as u32;
        self.event(News::Members { count, missing, has_io: self.membership.has_io_everywhere() });
        let order = self.membership.order();
        let io_everywhere = self.membership.has_io_everywhere();
        let arrangement = self.arrange(&order);
        let addresses: Vec<SocketAddr> =
            arrangement.nodes.iter().map(|&node| self.address(order[node as usize])).collect();
        for (node, &place) in (0..).zip(&order) {
            let token = self.tokens[place];
            if let Some(guest) = self.guests.get_mut(&token) {
                guest.node = Some(node);
            }
            let Arrangement { nodes, servers, shape, .. } = arrangement.clone();
            let addresses = addresses.clone();
            self.tell(token, &ToNode::Roster(Roster { node, nodes, addresses, servers, shape, io_everywhere }));
        }
        None
    }

    /// Where the others find a node's daemon. A node on this machine may have come by an address that means
    /// another machine elsewhere, so it is found where the others have found this machine.
    fn address(&self, place: usize) -> SocketAddr {
        let address = self.membership.arrivals()[place].address;
        let called = |token: &Token| self.guests.get(token).and_then(|guest| guest.called);
        let is_here = called(&self.tokens[place]).is_none();
        let by_others = is_here.then(|| self.tokens.iter().find_map(called)).flatten();
        by_others.map_or(address, |ip| SocketAddr::new(ip, address.port()))
    }

    /// Ranks and trees as the user wants them; where these nodes can't be had so, as by default.
    fn arrange(&self, order: &[usize]) -> Arrangement {
        let names: Vec<&str> = order.iter().map(|&place| self.membership.arrivals()[place].name.as_str()).collect();
        let numbered = local_nodes(order.len() as u32);
        let hosts = names.join(",").parse::<Hostlist>().ok().filter(|hosts| hosts.len() == order.len());
        let hosts = hosts.unwrap_or_else(|| numbered.clone());
        let arranged = Arrangement::new(&self.shape, &hosts, switches(&self.shape).as_ref());
        arranged.or_else(|_| Arrangement::new(&ShapeOptions::default(), &numbered, None)).expect("any nodes have trees")
    }

    fn tell_launches(&self) {
        self.event(News::Launches(self.guests.values().filter(|guest| guest.role == Role::Launch).count() as u32));
    }

    fn tell_all(&mut self, role: Role, message: &ToNode) {
        let tokens: Vec<Token> =
            self.guests.iter().filter(|(_, guest)| guest.role == role).map(|(token, _)| *token).collect();
        for token in tokens {
            self.tell(token, message);
        }
    }

    fn tell(&mut self, token: Token, message: &ToNode) {
        let Some(guest) = self.guests.get_mut(&token) else { return };
        guest.channel.send_line(&serde_json::to_string(message).expect("a message is text"));
        if let Err(error) = guest.channel.flush() {
            self.gone(token, &error);
        }
    }

    fn event(&self, news: News) {
        // Nobody listens once the run is over.
        let _ = self.events.send(Event::Node(news));
    }
}
