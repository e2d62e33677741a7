//! Dialling and accepting links with rails; what becomes of interfaces that fail.

use std::collections::BTreeSet;
use std::io;

use headwater_proto::{Rank, Time};
use mio::net::TcpStream;
use mio::{Registry, Token};
use rustix::rand::{GetRandomFlags, getrandom};

use super::arriving::Arriving;
use super::pairs::pairs;
use super::stream::{RailFailure, RailStream};
use super::{Interface, Rails};
use crate::link::{Link, LinkError};
use crate::links::Links;

/// How long the connections of a link may take once one of them has been made, counted from the first attempt, in
/// milliseconds. The others are then left out.
const RAIL_WAIT_MS: Time = 1000;

/// The state of links with rails.
#[derive(Debug)]
pub(crate) struct RailState {
    rails: Rails,
    arriving: Arriving,
    /// The interfaces whose failures have been reported.
    reported: BTreeSet<String>,
    /// The first failure, for people.
    failure: Option<String>,
}

impl RailState {
    /// Begins a link to this rank. `first` is where it listens if it has no interface of its own.
    pub(crate) fn dial(&self, rank: Rank, first: io::Result<std::net::SocketAddr>) -> io::Result<RailStream> {
        let addresses = self.rails.peers.get(rank.0 as usize).filter(|addresses| !addresses.is_empty());
        let addresses = addresses.map_or_else(|| first.map(|first| vec![first]), |addresses| Ok(addresses.clone()))?;
        let mut number = [0; 16];
        getrandom(&mut number, GetRandomFlags::empty())?;
        RailStream::dial(&pairs(&self.rails.interfaces, &addresses), u128::from_le_bytes(number))
    }

    /// Takes an accepted connection, which may be one of several of a link.
    pub(crate) fn arrive(
        &mut self,
        now: Time,
        connection: TcpStream,
        token: Token,
        registry: &Registry,
    ) -> Result<(), LinkError> {
        Ok(self.arriving.add(now, connection.into(), token, registry)?)
    }

    /// Handles readiness. Returns false if the token is no arriving connection's.
    pub(crate) fn ready(&mut self, token: Token) -> bool {
        self.arriving.ready(token)
    }

    /// Returns when [`Links::begin_arrived`] is due.
    pub(crate) fn next(&self) -> Option<Time> {
        self.arriving.next()
    }

    /// Reports an interface that does not reach a peer; each one once.
    fn note(&mut self, rank: Rank, RailFailure { interface, address, error }: &RailFailure) {
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

impl Links {
    /// Has all links use these interfaces. All peers must do the same.
    pub fn use_rails(&mut self, rails: Option<&Rails>) {
        self.rails = rails.map(|rails| RailState {
            rails: rails.clone(),
            arriving: Arriving::default(),
            reported: BTreeSet::new(),
            failure: None,
        });
    }

    /// Returns why a link does not use an interface, if that has happened.
    pub fn interface_failure(&self) -> Option<&str> {
        self.rails.as_ref()?.failure.as_deref()
    }

    /// Makes links of the connections that have all arrived.
    pub(crate) fn begin_arrived(&mut self, now: Time, registry: &Registry, token: &mut impl FnMut() -> Token) {
        let Some(rails) = &mut self.rails else { return };
        for sockets in rails.arriving.take_complete(now, registry) {
            self.make_room(now);
            let link = Link::accept(RailStream::accepted(sockets), &self.identity, now);
            self.accepted(now, link, token(), registry, None);
        }
    }

    /// Goes on without connections that take too long.
    pub(crate) fn leave_out_late_rails(&mut self, now: Time) {
        let late = |link: &Link| link.stream.is_waiting_for_rails() && now >= link.opened_at + RAIL_WAIT_MS;
        let late: Vec<Token> = self.links.iter().filter(|(_, link)| late(link)).map(|(token, _)| *token).collect();
        for token in late {
            let Some(link) = self.links.get_mut(&token) else { continue };
            link.stream.stop_waiting_for_rails();
            self.connected(now, token);
        }
    }

    /// Returns when [`Links::leave_out_late_rails`] is due.
    pub(crate) fn next_late_rails(&self) -> Option<Time> {
        self.rails.as_ref()?;
        let waiting = self.links.values().filter(|link| link.stream.is_waiting_for_rails());
        waiting.map(|link| link.opened_at + RAIL_WAIT_MS).min()
    }

    /// Begins the handshake of a dialled link whose connections have been made. Returns false if the link has ended.
    pub(crate) fn connected(&mut self, now: Time, token: Token) -> bool {
        let Some(link) = self.links.get_mut(&token) else { return false };
        if let Err(error) = link.connected(&self.identity) {
            self.drop_link(now, token, &error);
            return false;
        }
        if let (Some(rails), Some(rank)) = (&mut self.rails, link.dialled) {
            link.stream.take_rail_failures().iter().for_each(|failure| rails.note(rank, failure));
        }
        self.writable.insert(token);
        true
    }
}
