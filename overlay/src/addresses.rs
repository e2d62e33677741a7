//! The addresses of ranks: fixed from the start, or resolved from host names.
//!
//! A name is resolved when its rank is dialled, and again while that fails, so a node that returns with another address
//! is found. The system's `getent` resolves it, in a process of its own: a statically linked program can't load a
//! site's resolver modules.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use headwater_proto::Rank;

/// How long resolved addresses are used while their rank does not answer.
const VALID_MAX: Duration = Duration::from_secs(10);
/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 16;

/// Where each rank listens.
#[derive(Debug)]
pub enum Addresses {
    /// By rank.
    Fixed(Vec<SocketAddr>),
    /// Host and port by rank, and the resolved names.
    Named(Vec<String>, HashMap<Rank, ResolvedName>),
}

/// The addresses of a name.
#[derive(Debug)]
pub struct ResolvedName {
    addresses: Vec<SocketAddr>,
    /// Which of them is tried next.
    next: usize,
    at: Instant,
    /// The pending resolution.
    answer: Option<Receiver<io::Result<Vec<SocketAddr>>>>,
}

impl Addresses {
    /// Uses the hosts and ports `names`, by rank; without names, `peers`.
    pub fn new(peers: &[SocketAddr], names: &[String]) -> Addresses {
        match names.is_empty() {
            true => Addresses::Fixed(peers.to_vec()),
            false => Addresses::Named(names.to_vec(), HashMap::new()),
        }
    }

    /// Returns the address for dialling a rank. Never blocks: fails while the name is being resolved.
    pub(crate) fn of(&mut self, rank: Rank) -> io::Result<SocketAddr> {
        match self {
            Addresses::Fixed(addresses) => addresses.get(rank.0 as usize).copied(),
            Addresses::Named(names, resolved) => {
                let name = names.get(rank.0 as usize).ok_or(io::ErrorKind::AddrNotAvailable)?;
                resolved.entry(rank).or_insert_with(|| ResolvedName::begin(name)).next(name)
            }
        }
        .ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// Returns where a rank listens, for messages.
    pub(crate) fn shown(&self, rank: Rank) -> Option<String> {
        match self {
            Addresses::Fixed(addresses) => addresses.get(rank.0 as usize).map(SocketAddr::to_string),
            Addresses::Named(names, _) => names.get(rank.0 as usize).cloned(),
        }
    }
}

impl From<Vec<SocketAddr>> for Addresses {
    fn from(addresses: Vec<SocketAddr>) -> Addresses {
        Addresses::Fixed(addresses)
    }
}

impl ResolvedName {
    fn begin(name: &str) -> ResolvedName {
        ResolvedName { addresses: Vec::new(), next: 0, at: Instant::now(), answer: resolve(name) }
    }

    /// Returns the addresses in turn. Known ones stay while the name can't be resolved.
    fn next(&mut self, name: &str) -> Option<SocketAddr> {
        match self.answer.as_ref().map(Receiver::try_recv) {
            Some(Err(TryRecvError::Empty)) => {}
            Some(Ok(Ok(addresses))) => (self.addresses, self.answer) = (addresses, None),
            Some(Ok(Err(error))) => {
                tracing::warn!(name, %error, "a host name can't be resolved; it is tried again. Check the list of nodes and the name service");
                self.answer = None;
            }
            Some(Err(TryRecvError::Disconnected)) => self.answer = None,
            None if self.at.elapsed() >= VALID_MAX => (self.at, self.answer) = (Instant::now(), resolve(name)),
            None => {}
        }
        self.next = self.next.wrapping_add(1);
        self.addresses.get(self.next % self.addresses.len().max(1)).copied()
    }
}

/// Resolves a name on a thread of its own.
fn resolve(name: &str) -> Option<Receiver<io::Result<Vec<SocketAddr>>>> {
    let (sender, receiver) = channel();
    let name = name.to_owned();
    // The receiver may be gone.
    let resolves = move || drop(sender.send(addresses_of(&name)));
    let thread = std::thread::Builder::new().name("names".into()).spawn(resolves);
    thread.ok().map(|_| receiver)
}

/// Resolves a host and a port.
pub(crate) fn addresses_of(name: &str) -> io::Result<Vec<SocketAddr>> {
    let (host, port) = name.rsplit_once(':').ok_or(io::ErrorKind::InvalidInput)?;
    let port = port.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut getent = Command::new("getent");
    let output = getent.args(["ahosts", "--", host]).stdin(Stdio::null()).stderr(Stdio::null()).output()?;
    let addresses = addresses_in(&String::from_utf8_lossy(&output.stdout), port);
    if addresses.is_empty() { Err(io::Error::new(io::ErrorKind::NotFound, "unknown host")) } else { Ok(addresses) }
}

/// Parses the output of `getent ahosts`, which has a line for each address and type of socket.
fn addresses_in(text: &str, port: u16) -> Vec<SocketAddr> {
    let words = text.lines().filter_map(|line| line.split_whitespace().next());
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for address in words.filter_map(|word| word.parse::<IpAddr>().ok()).map(|ip| SocketAddr::new(ip, port)) {
        if addresses.len() < ADDRESSES_MAX && !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_counts_once() {
        let text = "10.77.0.1       STREAM node001\n10.77.0.1       DGRAM  \n\
                    fe80::1%eth0    STREAM \n2001:db8::1     STREAM \n2001:db8::1     RAW    \n";
        let expected: Vec<SocketAddr> = vec!["10.77.0.1:7".parse().unwrap(), "[2001:db8::1]:7".parse().unwrap()];
        assert_eq!(addresses_in(text, 7), expected);
    }

    #[test]
    fn names_are_looked_up_and_their_addresses_tried_in_turn() {
        let mut addresses = Addresses::Named(vec!["127.0.0.1:7".into(), "no port".into()], HashMap::new());
        let deadline = Instant::now() + Duration::from_secs(20);
        let found = loop {
            match addresses.of(Rank(0)) {
                Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
                found => break found,
            }
        };
        assert_eq!(found.unwrap(), "127.0.0.1:7".parse().unwrap());
        assert!(addresses.of(Rank(2)).is_err(), "there is no such rank");
        let Addresses::Named(_, resolved) = &mut addresses else { unreachable!() };
        let known = resolved.get_mut(&Rank(0)).unwrap();
        known.addresses = vec!["10.0.0.1:7".parse().unwrap(), "10.0.0.2:7".parse().unwrap()];
        let tried: Vec<_> = (0..3).map(|_| known.next("127.0.0.1:7").unwrap()).collect();
        assert!(tried[0] != tried[1] && tried[0] == tried[2], "{tried:?}");
    }
}
