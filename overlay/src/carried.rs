//! The upgrade of a link from TCP to libfabric. It is dialled and greeted on TCP, and continues over the carriers of
//! both ends if both have one. So an end without a carrier, or a daemon's successor, needs no special treatment.
//!
//! Each end's greeting names its endpoint and a number for the link. The end that was dialled greets last, when its
//! carrier is ready, so the other end's first bytes find the link there. Until the carried link has been greeted,
//! neither end reports a link to the node. Then the dialling end closes the TCP connection. If the carried link fails,
//! it sends a message on TCP instead, and the link stays there.

use headwater_abi::wire::{Endpoint, Message};
use headwater_proto::{Peer, Rank, Time};
use mio::{Registry, Token};

use crate::carrier::Carrier;
use crate::link::{Link, LinkError, Outgoing};
use crate::links::Links;
use crate::session::Fabric;
use crate::stream::SILENCE_MS_MAX;

/// How long the greetings of a carried link may take, in milliseconds.
const CARRIED_WAIT_MS_MAX: Time = 2000;

impl Links {
    /// Uses libfabric with all peers that have it. Waits until the carrier has started or failed.
    pub fn use_fabric(&mut self, fabric: Option<&Fabric>) {
        match fabric.map(Carrier::start) {
            Some(Ok(carrier)) => self.upgrading.carrier = Some(carrier),
            Some(Err(error)) => self.upgrading.fail(error.to_string()),
            None => {}
        }
    }

    /// Returns why TCP is used in place of libfabric, if it is.
    pub fn tcp_instead(&self) -> Option<&str> {
        self.upgrading.failure.as_deref()
    }

    /// Handles a peer's greeting, which may name an endpoint for the upgrade.
    pub(crate) fn greeted(&mut self, now: Time, token: Token, peer: Peer, endpoint: Option<Endpoint>) {
        let Links { links, upgrading, identity, .. } = self;
        let Some(link) = links.get_mut(&token) else { return };
        match link.dialled {
            Some(rank) if link.stream.is_carried() => {
                // The TCP connection is no longer needed.
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
                        // The peer waits for a message on TCP.
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

    /// Registers carried links that have begun.
    pub(crate) fn begin_carried(&mut self, now: Time, registry: &Registry, token: &mut impl FnMut() -> Token) {
        for link in std::mem::take(&mut self.upgrading.begun) {
            let dialled = link.dialled;
            if let Err(error) = self.add(link, token(), registry) {
                self.not_carried(now, dialled, &error);
            }
        }
    }

    /// Handles a failed carried link to this rank: the link stays on TCP, if its connection waits for the upgrade.
    pub(crate) fn not_carried(&mut self, now: Time, dialled: Option<Rank>, error: &LinkError) {
        let Some(rank) = dialled else { return };
        let tcp = self.links.iter().find(|(_, link)| link.dialled == dialled && link.upgrade_until.is_some());
        // Otherwise the peer itself is gone.
        if let Some(token) = tcp.map(|(token, _)| *token) {
            self.upgrading.fail(format!("rank {} can't be reached over libfabric: {error}", rank.0));
            self.upgrading.avoided.insert(rank);
            self.fall_back_to_tcp(now, token);
        }
    }

    /// Ends the upgrade of a connection: the link stays on TCP.
    pub(crate) fn fall_back_to_tcp(&mut self, now: Time, token: Token) {
        let Some(link) = self.links.get_mut(&token) else { return };
        link.upgrade_until = None;
        if link.dialled.is_some() {
            // The queue is empty, so this can't fail.
            let _ = link.send(Outgoing::Message(Message::Alive));
        }
        if let Some(peer) = link.peer() {
            self.up(now, token, peer);
        }
    }

    /// Handles an upgrade that took too long.
    pub(crate) fn upgrade_timed_out(&mut self, now: Time, token: Token) {
        let error = LinkError::Silent(CARRIED_WAIT_MS_MAX);
        let Some(rank) = self.links.get(&token).map(|link| link.dialled) else { return };
        let is_carried = |link: &Link| link.stream.is_carried() && link.rank.is_none() && link.dialled == rank;
        let carried = self.links.iter().find(|(_, link)| is_carried(link)).map(|(token, _)| *token);
        match (rank, carried) {
            // Ending it makes the TCP connection the link.
            (Some(_), Some(carried)) => self.drop_link(now, carried, &error),
            (Some(_), None) => self.not_carried(now, rank, &error),
            (None, _) => self.drop_link(now, token, &error),
        }
    }

    /// Drops the carried links to a rank that is no longer dialled.
    pub(crate) fn forget_carried(&mut self, now: Time, rank: Rank) {
        self.upgrading.begun.retain(|link| link.dialled != Some(rank));
        let links = self.links.iter().filter(|(_, link)| link.dialled == Some(rank));
        for token in links.map(|(token, _)| *token).collect::<Vec<_>>() {
            self.close(now, token);
        }
    }
}
