//! How a link leaves TCP: it is dialled and greeted on TCP, and goes on over the carriers of both ends if both have
//! one. So whoever has none, or a daemon's successor, needs nothing to be known of it beforehand.
//!
//! Each end's greeting names its endpoint and a number for the link. The end that was dialled greets last, when its
//! carrier has been ordered to carry; so what the other end says first finds the link there. Until the carried link
//! has been greeted, neither end tells the node of a link: the TCP connection is *held*. Then the end that dialled
//! closes it; or, if nothing comes of the carried link, says a word on it, and TCP it is.

use headwater_abi::wire::{Endpoint, Message};
use headwater_proto::{Peer, Rank, Time};
use mio::{Registry, Token};

use crate::carrier::Carrier;
use crate::link::{Link, LinkError, Outgoing};
use crate::links::Links;
use crate::session::Fabric;
use crate::stream::SILENCE_MS_MAX;

/// How long a carried link may take until it has been greeted, in milliseconds.
const CARRIED_WAIT_MS_MAX: Time = 2000;

impl Links {
    /// Has links go over libfabric where the peer has it too. Waits until it is known whether this node has.
    pub fn use_fabric(&mut self, fabric: Option<&Fabric>) {
        match fabric.map(Carrier::start) {
            Some(Ok(carrier)) => self.upgrading.carrier = Some(carrier),
            Some(Err(error)) => self.upgrading.fail(error.to_string()),
            None => {}
        }
    }

    /// Why TCP is used in place of libfabric, if it is.
    pub fn tcp_instead(&self) -> Option<&str> {
        self.upgrading.failure.as_deref()
    }

    /// A peer has greeted, and may have named a place to go on.
    pub(crate) fn greeted(&mut self, now: Time, token: Token, peer: Peer, endpoint: Option<Endpoint>) {
        let Links { links, upgrading, identity, .. } = self;
        let Some(link) = links.get_mut(&token) else { return };
        match link.dialled {
            Some(rank) if link.stream.is_carried() => {
                // The connection on which the places were named has done its work.
                let replaced = self.dialling.replace(rank, token);
                self.up(now, token, peer);
                if let Some(tcp) = replaced {
                    self.close(now, tcp);
                }
                return;
            }
            Some(rank) => {
                let endpoints = link.offered.take().zip(endpoint);
                if let Some((own, endpoint)) = endpoints {
                    link.upgrade_until = Some(now + CARRIED_WAIT_MS_MAX);
                    if !upgrading.begin(&own, &endpoint, |stream| Link::dial(stream, rank, now)) {
                        // The peer holds the connection, too.
                        self.fall_back_to_tcp(now, token);
                    }
                    return;
                }
            }
            None if link.greets_last => {
                let endpoints = endpoint.and_then(|endpoint| Some((upgrading.offer()?, endpoint)));
                let begins = |(own, endpoint): &(Endpoint, Endpoint)| {
                    upgrading.begin(own, endpoint, |stream| Link::accept(stream, identity, now))
                };
                let answer = endpoints.filter(begins).map(|(own, _)| own);
                let is_upgrading = answer.is_some();
                link.greet(identity, answer);
                self.writable.insert(token);
                if is_upgrading {
                    link.upgrade_until = Some(now + SILENCE_MS_MAX);
                    return;
                }
            }
            None => {}
        }
        self.up(now, token, peer);
    }

    /// Has carried links begin.
    pub(crate) fn begin_carried(&mut self, now: Time, registry: &Registry, token: &mut impl FnMut() -> Token) {
        for link in std::mem::take(&mut self.upgrading.begun) {
            let dialled = link.dialled;
            if let Err(error) = self.add(link, token(), registry) {
                self.not_carried(now, dialled, &error);
            }
        }
    }

    /// Nothing came of a carried link to this rank. If its connection is held, the link goes on there.
    pub(crate) fn not_carried(&mut self, now: Time, dialled: Option<Rank>, error: &LinkError) {
        let Some(rank) = dialled else { return };
        let tcp = self.links.iter().find(|(_, link)| link.dialled == dialled && link.upgrade_until.is_some());
        // Without one the peer itself has gone.
        if let Some(token) = tcp.map(|(token, _)| *token) {
            self.upgrading.fail(format!("rank {} can't be reached over libfabric: {error}", rank.0));
            self.upgrading.avoided.insert(rank);
            self.fall_back_to_tcp(now, token);
        }
    }

    /// A held connection is the link after all: the peer says so, or is told.
    pub(crate) fn fall_back_to_tcp(&mut self, now: Time, token: Token) {
        let Some(link) = self.links.get_mut(&token) else { return };
        link.upgrade_until = None;
        if link.dialled.is_some() {
            // Nothing can be queued yet.
            let _ = link.send(Outgoing::Message(Message::Alive));
        }
        if let Some(peer) = link.peer() {
            self.up(now, token, peer);
        }
    }

    /// A held connection has waited for long enough.
    pub(crate) fn upgrade_timed_out(&mut self, now: Time, token: Token) {
        let error = LinkError::Silent(CARRIED_WAIT_MS_MAX);
        let Some(rank) = self.links.get(&token).map(|link| link.dialled) else { return };
        let is_carried = |link: &Link| link.stream.is_carried() && link.rank.is_none() && link.dialled == rank;
        let carried = self.links.iter().find(|(_, link)| is_carried(link)).map(|(token, _)| *token);
        match (rank, carried) {
            // Its end has the connection go on.
            (Some(_), Some(carried)) => self.drop_link(now, carried, &error),
            (Some(_), None) => self.not_carried(now, rank, &error),
            (None, _) => self.drop_link(now, token, &error),
        }
    }

    /// Forgets what was begun for this rank, which is not dialled any more.
    pub(crate) fn forget_carried(&mut self, now: Time, rank: Rank) {
        self.upgrading.begun.retain(|link| link.dialled != Some(rank));
        let links = self.links.iter().filter(|(_, link)| link.dialled == Some(rank));
        for token in links.map(|(token, _)| *token).collect::<Vec<_>>() {
            self.close(now, token);
        }
    }
}
