//! The state of links with rails; see `links.rs`.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use headwater_proto::{Rank, Time};
use mio::net::TcpStream;
use mio::{Registry, Token};
use rustix::rand::{GetRandomFlags, getrandom};

use super::arriving::Arriving;
use super::interface::{Interface, Rails};
use super::pairs::pairs;
use super::stream::{RailFailure, RailStream};

/// The state of links with rails.
#[derive(Debug)]
pub(crate) struct RailState {
    rails: Rails,
    arriving: Arriving,
    /// Ranks that refused some of a link's connections when they were last dialled.
    partly_refused: BTreeSet<Rank>,
    /// The interfaces whose failures have been reported.
    reported: BTreeSet<String>,
    /// The first failure, for people.
    failure: Option<String>,
}

impl RailState {
    pub(super) fn new(rails: &Rails) -> RailState {
        RailState {
            rails: rails.clone(),
            arriving: Arriving::default(),
            partly_refused: BTreeSet::new(),
            reported: BTreeSet::new(),
            failure: None,
        }
    }

    /// Returns the first failure of an interface.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Returns the connections of the links that have arrived.
    pub(super) fn take_complete(&mut self, now: Time, registry: &Registry) -> Vec<Vec<OwnedFd>> {
        self.arriving.take_complete(now, registry)
    }

    /// Begins a link to this rank. `first` is where it listens if it has no interface of its own.
    pub(crate) fn dial(&mut self, rank: Rank, first: io::Result<SocketAddr>) -> io::Result<RailStream> {
        let addresses = self.rails.peers.get(rank.0 as usize).filter(|addresses| !addresses.is_empty());
        let addresses = addresses.map_or_else(|| first.map(|first| vec![first]), |addresses| Ok(addresses.clone()))?;
        let mut number = [0; 16];
        getrandom(&mut number, GetRandomFlags::empty())?;
        let may_be_starting = !self.partly_refused.remove(&rank);
        RailStream::dial(&pairs(&self.rails.interfaces, &addresses), u128::from_le_bytes(number), may_be_starting)
    }

    /// Notes that this rank refused some of a link's connections. The next dial goes without those that it refuses.
    pub(super) fn note_partly_refused(&mut self, rank: Rank) {
        self.partly_refused.insert(rank);
    }

    /// Takes an accepted connection, which may be one of several of a link.
    pub(crate) fn arrive(
        &mut self,
        now: Time,
        connection: TcpStream,
        token: Token,
        registry: &Registry,
    ) -> io::Result<()> {
        self.arriving.add(now, connection.into(), token, registry)
    }

    /// Handles readiness. Returns false if the token is no arriving connection's.
    pub(crate) fn ready(&mut self, token: Token) -> bool {
        self.arriving.ready(token)
    }

    /// Returns when [`RailState::take_complete`] is due.
    pub(crate) fn next(&self) -> Option<Time> {
        self.arriving.next()
    }

    /// Reports an interface that does not reach a peer; each one once.
    pub(super) fn note(&mut self, rank: Rank, RailFailure { interface, address, error }: &RailFailure) {
        tracing::debug!(rank = rank.0, %interface, %address, %error, "an interface is not used for a link");
        if !self.reported.insert(interface.name.clone()) {
            return;
        }
        let message = failure_message(interface, &format!("does not reach {address} (rank {}): {error}", rank.0));
        tracing::warn!("{message}");
        self.failure.get_or_insert(message);
    }
}

fn failure_message(interface: &Interface, cause: &str) -> String {
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = &interface.name;
    format!(
        "{node}: interface {interface} {cause}. The links use the other interfaces. Check it on both nodes \
         (ip -s link show {name}), or leave it out of --interfaces"
    )
}
