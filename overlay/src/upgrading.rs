//! The state of upgrades from TCP to libfabric; see `carried.rs`.

use std::collections::BTreeSet;

use headwater_abi::wire::Endpoint;
use headwater_proto::{Rank, Time};

use crate::carrier::Carrier;
use crate::link::Link;

/// The state of upgrades from TCP to libfabric.
#[derive(Debug, Default)]
pub(crate) struct Upgrading {
    pub(crate) carrier: Option<Carrier>,
    /// Carried links that are not registered yet.
    pub(crate) begun: Vec<Link>,
    /// Ranks whose carried links have failed.
    pub(crate) avoided: BTreeSet<Rank>,
    /// The first reason for using TCP.
    pub(crate) failure: Option<String>,
}

impl Upgrading {
    /// Returns when a registration is due.
    pub(crate) fn next(&self) -> Option<Time> {
        (!self.begun.is_empty()).then_some(0)
    }

    /// Returns an endpoint for a link, if there is a carrier.
    pub(crate) fn offer(&mut self) -> Option<Endpoint> {
        if self.carrier.as_mut().is_some_and(|carrier| !carrier.is_alive()) {
            self.carrier = None;
            self.fail("headwater-fabric has ended".into());
        }
        self.carrier.as_ref()?.offer()
    }

    /// As [`Upgrading::offer`], for a link to this rank.
    pub(crate) fn offer_to(&mut self, rank: Rank) -> Option<Endpoint> {
        if self.avoided.contains(&rank) { None } else { self.offer() }
    }

    pub(crate) fn fail(&mut self, why: String) {
        tracing::info!(why, "links use TCP in place of libfabric");
        self.failure.get_or_insert(why);
    }

    /// Begins a carried link between two endpoints. Returns false if that fails.
    pub(crate) fn begin(
        &mut self,
        own: &Endpoint,
        peer: &Endpoint,
        link: impl FnOnce(mio::net::UnixStream) -> Link,
    ) -> bool {
        let Some(carrier) = &mut self.carrier else { return false };
        match carrier.carry(own, peer) {
            Ok(stream) => self.begun.push(link(stream)),
            Err(error) => {
                self.fail(format!("headwater-fabric refuses orders: {error}"));
                return false;
            }
        }
        true
    }
}
