//! What links need to leave TCP; `carried.rs` tells how they do.

use std::collections::BTreeSet;

use headwater_abi::wire::Endpoint;
use headwater_proto::{Rank, Time};

use crate::carrier::Carrier;
use crate::link::Link;

/// What links need to leave TCP.
#[derive(Debug, Default)]
pub(crate) struct Upgrading {
    pub(crate) carrier: Option<Carrier>,
    /// Carried links that are to begin.
    pub(crate) begun: Vec<Link>,
    /// Ranks to which no carried link came about.
    pub(crate) avoided: BTreeSet<Rank>,
    /// Why TCP is used first.
    pub(crate) failure: Option<String>,
}

impl Upgrading {
    /// When there is something to do.
    pub(crate) fn next(&self) -> Option<Time> {
        (!self.begun.is_empty()).then_some(0)
    }

    /// A place for a link to go on, if there is a carrier.
    pub(crate) fn offer(&mut self) -> Option<Endpoint> {
        if self.carrier.as_mut().is_some_and(|carrier| !carrier.is_alive()) {
            self.carrier = None;
            self.fail("headwater-fabric has ended".into());
        }
        self.carrier.as_ref()?.offer()
    }

    /// The same for a link to this rank.
    pub(crate) fn offer_to(&mut self, rank: Rank) -> Option<Endpoint> {
        if self.avoided.contains(&rank) { None } else { self.offer() }
    }

    pub(crate) fn fail(&mut self, why: String) {
        tracing::info!(why, "links go over TCP in place of libfabric");
        self.failure.get_or_insert(why);
    }

    /// Has a link begin that goes on from where `own` and `peer` say. False if there is none.
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
                self.fail(format!("headwater-fabric takes no orders: {error}"));
                return false;
            }
        }
        true
    }
}
