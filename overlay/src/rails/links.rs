//! Dialling and accepting links with rails; what becomes of interfaces that fail.

use headwater_proto::Time;
use mio::{Registry, Token};

use super::interface::Rails;
use super::state::RailState;
use super::stream::RailStream;
use crate::link::Link;
use crate::links::Links;

/// How long the connections of a link may take if one of them has been made, in milliseconds; the others are then left
/// out. The system repeats a lost first packet after a second.
const RAIL_WAIT_MS: Time = 1500;

impl Links {
    /// Has all links use these interfaces. All peers must do the same.
    pub fn use_rails(&mut self, rails: Option<&Rails>) {
        self.rails = rails.map(RailState::new);
    }

    /// Returns why a link does not use an interface, if that has happened.
    pub fn interface_failure(&self) -> Option<&str> {
        self.rails.as_ref()?.failure()
    }

    /// Makes links of the connections that have all arrived.
    pub(crate) fn begin_arrived(&mut self, now: Time, registry: &Registry, token: &mut impl FnMut() -> Token) {
        let Some(rails) = &mut self.rails else { return };
        for sockets in rails.take_complete(now, registry) {
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
            if let (Some(rails), Some(rank), true) = (&mut self.rails, link.dialled, link.stream.is_partly_refused()) {
                rails.note_partly_refused(rank);
            }
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
