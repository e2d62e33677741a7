//! Links to parents: they come up, fall silent, end. Requests to a lost parent are sent to the next, from the
//! byte that has arrived.

use alloc::vec::Vec;

use headwater_abi::Path;
use headwater_abi::wire::{Aspect, Message, TransferId};

use super::Node;
use super::requests::aspects_of;
use crate::entry::{Arriving, Piece, Source};
use crate::pending::{ChildWant, Key, Route, Waiter};
use crate::state::confirm::Place;
use crate::state::parent::{Joined, Link, Parent};
use crate::{Output, Peer, Rank, Time};

impl Node {
    pub(super) fn parent_up(&mut self, rank: Rank) {
        self.orphan_all(rank);
        self.forget_confirmations(Peer::Parent(rank));
        let joined = Joined::at_first(&self.config.forest, self.config.rank, rank);
        let is_control = joined.is_control;
        let is_back = self.parents.get(&rank).is_some_and(|parent| !matches!(parent.link, Link::Starting(_)));
        // It may have been hung up meanwhile.
        let Some(parent) = self.parents.get_mut(&rank) else { return };
        (parent.link, parent.heard, parent.probed) = (Link::Up, self.now, None);
        if let Some(doublings) = parent.given_up.take() {
            self.timeouts.was_too_short(self.now, doublings);
        }
        (parent.newest, parent.generation, parent.joined) = (None, 1, joined);
        let is_downstream_source = parent.is_downstream_source;
        self.report_generation(rank);
        if is_control {
            self.send_passthrough_paths(Peer::Parent(rank));
        }
        if is_downstream_source {
            // Before anything else: the link ends once the source owes nothing.
            self.redispatch();
        }
        self.reroute();
        if is_back {
            self.unsettle(self.trees_reported_to(rank));
        }
        self.redispatch();
    }

    /// Handles the end of a parent's link.
    pub(super) fn parent_down(&mut self, rank: Rank) {
        self.forget_confirmations(Peer::Parent(rank));
        self.unsettle(self.trees_reported_to(rank));
        let absence_ms = self.config.limits.parent_absence_ms_max;
        let Some(parent) = self.parents.get_mut(&rank) else { return };
        parent.link = match parent.link {
            Link::Up if absence_ms > 0 => Link::Away(self.now.saturating_add(absence_ms)),
            Link::Up => Link::Dead,
            link => link,
        };
        self.orphan_all(rank);
        self.forget_downstream_source(rank);
        self.reroute();
        self.redispatch();
        self.fail_refreshes_without_parent();
        self.report_to_parents_behind();
    }

    /// Gives up a parent that has not linked. A session's listeners exist before its first daemon starts, so where none
    /// is left the parent has ended, and is not about to start. If it is linked later, it is a parent again.
    pub(super) fn parent_absent(&mut self, rank: Rank) {
        let Some(parent) = self.parents.get_mut(&rank) else { return };
        if matches!(parent.link, Link::Starting(_)) {
            parent.link = Link::Dead;
            self.parent_down(rank);
        }
    }

    /// Takes back the requests to a rank, and the pieces that it was sending.
    fn orphan_all(&mut self, rank: Rank) {
        let Some(parent) = self.parents.get_mut(&rank) else { return };
        let arriving: Vec<Piece> = core::mem::take(&mut parent.incoming).into_values().collect();
        for key in self.pending.keys_routed(Route::Parent(rank)) {
            self.pending.set_route(&key, Route::Waiting);
        }
        for piece in arriving {
            self.orphan(piece);
        }
    }

    /// Marks a piece as lost and requests the rest; the arrived bytes stay.
    fn orphan(&mut self, (path, block): Piece) {
        let Some(arriving) = self.entries.get_mut(&path).and_then(|e| e.arriving_mut(block)) else { return };
        arriving.source = Source::Lost;
        let key = (path, arriving.aspect);
        if !self.pending.set_route(&key, Route::Waiting) {
            self.request_later(&key);
        }
    }

    /// Adds a request without waiters, to be sent once a parent is up.
    fn request_later(&mut self, key: &Key) {
        if self.pending.len() >= self.config.limits.pending_max {
            return self.fail(key);
        }
        let tree = self.tree_of(&key.0, key.1);
        self.pending.insert(self.now, key.clone(), Route::Waiting, tree, self.config.limits.request_timeout_ms_max);
    }

    /// Returns when a timeout of a parent is due.
    pub(super) fn parents_due(&self) -> Option<Time> {
        let [quiet_ms, probe_ms] = self.silence_ms_max();
        let due = |(&rank, parent): (&Rank, &Parent)| match parent.link {
            Link::Starting(until) | Link::Away(until) | Link::Banned(until) => Some(until),
            Link::Dead => None,
            Link::Up => match parent.probed {
                Some(probed) => Some(probed.saturating_add(probe_ms)),
                None if self.owes(rank, parent) => Some(parent.heard.saturating_add(quiet_ms)),
                None => None,
            },
        };
        self.parents.iter().filter_map(due).min()
    }

    /// Returns how long a parent may be silent before and after a probe, in milliseconds.
    fn silence_ms_max(&self) -> [Time; 2] {
        let limits = &self.config.limits;
        [limits.quiet_ms_max, limits.probe_ms_max].map(|ms| self.timeouts.stretch(self.now, ms))
    }

    /// Returns whether this parent owes answers.
    fn owes(&self, rank: Rank, parent: &Parent) -> bool {
        !parent.incoming.is_empty()
            || self.pending.owes_answer(rank)
            || self.confirmations.is_owed_by(Place::Peer(Peer::Parent(rank)))
    }

    /// Probes silent parents, and gives up those that remain silent.
    pub(super) fn watch_parents(&mut self) {
        let [quiet_ms, probe_ms] = self.silence_ms_max();
        let doublings = self.timeouts.doublings(self.now);
        let ranks: Vec<Rank> = self.parents.keys().copied().collect();
        for rank in ranks {
            let owes = self.parents.get(&rank).is_some_and(|parent| self.owes(rank, parent));
            let Some(parent) = self.parents.get_mut(&rank) else { continue };
            match (parent.link, parent.probed) {
                (Link::Up, Some(probed)) if self.now >= probed.saturating_add(probe_ms + quiet_ms) => {
                    // This node itself was held up: the parent's answer may be waiting.
                    parent.probed = Some(self.now);
                    self.send(Peer::Parent(rank), Message::Probe);
                }
                (Link::Up, Some(probed)) if self.now >= probed.saturating_add(probe_ms) => {
                    // It is dialled again in any case.
                    self.outputs.extend([Output::HangUp { rank }, Output::Dial { rank }]);
                    (parent.link, parent.given_up) = (Link::Dead, Some(doublings));
                    self.parent_down(rank);
                }
                (Link::Up, None) if owes && self.now >= parent.heard.saturating_add(quiet_ms) => {
                    parent.probed = Some(self.now);
                    self.send(Peer::Parent(rank), Message::Probe);
                }
                (Link::Starting(until) | Link::Away(until), _) if self.now >= until => {
                    parent.link = Link::Dead;
                    self.parent_down(rank);
                }
                (Link::Banned(until), _) if self.now >= until => {
                    parent.link = Link::Dead;
                    self.outputs.push_back(Output::Dial { rank });
                }
                _ => {}
            }
        }
    }

    /// Notes a message of a parent.
    pub(super) fn heard(&mut self, rank: Rank) {
        if let Some(parent) = self.parents.get_mut(&rank) {
            (parent.heard, parent.probed) = (self.now, None);
        }
    }

    /// Bans a parent that has sent wrong bytes, and requests the piece again.
    pub(super) fn corrupt(&mut self, rank: Rank, transfer: TransferId) {
        let Some(parent) = self.parents.get_mut(&rank).filter(|parent| parent.link == Link::Up) else { return };
        let Some(piece) = parent.incoming.remove(&transfer) else { return };
        self.ban(rank, piece.0.clone());
        self.begin_again(piece, Some(rank));
        self.parent_down(rank);
    }

    /// Bans a parent whose message had wrong content, of which nothing was stored.
    pub(super) fn corrupt_content(&mut self, rank: Rank, path: Path) {
        if self.is_up(rank) {
            self.ban(rank, path);
            self.parent_down(rank);
        }
    }

    /// Bans a parent for a while, because it has sent wrong content of this path.
    fn ban(&mut self, rank: Rank, path: Path) {
        if let Some(parent) = self.parents.get_mut(&rank) {
            parent.link = Link::Banned(self.now.saturating_add(self.config.limits.ban_ms));
        }
        self.outputs.push_back(Output::Mismatch { path, from: rank });
        self.outputs.push_back(Output::HangUp { rank });
    }

    /// Drops what has arrived of a piece, here and below, and requests it again. A request to another rank
    /// than the sender remains: its answer is yet to come.
    pub(super) fn begin_again(&mut self, piece: Piece, from: Option<Rank>) {
        let Some(aspect) = self.drop_unverified(piece.clone()) else { return };
        let (path, block) = piece;
        let keys: Vec<Key> = aspects_of(block).map(|aspect| (path.clone(), aspect)).collect();
        let is_requested_elsewhere =
            |route| matches!(route, Route::Parent(rank) if from.is_some_and(|from| from != rank));
        if keys.iter().all(|key| !self.pending.contains(key)) {
            return self.request_later(&(path, aspect));
        }
        for key in &keys {
            if self.pending.route(key).is_some_and(|route| !is_requested_elsewhere(route)) {
                self.pending.set_route(key, Route::Waiting);
            }
        }
    }

    /// Handles a piece that is refused. If it was the answer to a request, the answer comes from the present
    /// sender, or is requested again.
    pub(super) fn refused(&mut self, from: Rank, path: &Path, block: Option<u32>) {
        let Some(source) = self.entries.get(path).and_then(|e| e.arriving(block)).map(|a| a.source) else { return };
        let route = match source {
            Source::Parent(rank, _) => Route::Parent(rank),
            Source::Reader => Route::Read,
            Source::Lost => Route::Waiting,
        };
        let keys = aspects_of(block).map(|aspect| (path.clone(), aspect));
        let requested: Vec<Key> = keys.filter(|key| self.pending.route(key) == Some(Route::Parent(from))).collect();
        for key in &requested {
            self.pending.set_route(key, route);
        }
        if route == Route::Waiting && !requested.is_empty() {
            self.redispatch();
        }
    }

    /// Drops what has arrived of a piece, here and below. Returns its aspect, if anything had arrived.
    /// Children to which it was not announced continue to wait.
    pub(super) fn drop_unverified(&mut self, piece: Piece) -> Option<Aspect> {
        let (path, block) = &piece;
        let arriving = self.drop_arriving(path, *block, false)?;
        self.stop_below(&piece, &arriving);
        Some(arriving.aspect)
    }

    /// Stops forwarding an arriving piece: a child that it was announced to begins again, any other is served
    /// as if it asked now.
    pub(super) fn stop_below(&mut self, piece: &Piece, arriving: &Arriving) {
        let (path, aspect) = (&piece.0, arriving.aspect);
        let tree = self.tree_of(path, aspect);
        for (&rank, child) in self.children.iter_mut() {
            let Some((transfer, is_announced)) = child.stop_content(piece, &arriving.head) else { continue };
            if is_announced {
                let message = Message::Again { transfer };
                self.outputs.push_back(Output::Send { to: Peer::Child(rank), message });
            } else {
                let want = ChildWant { rank, tree, path: path.clone(), aspect, position: 0, only_stored: false };
                self.woken.push_back(Waiter::Child(want));
            }
        }
    }
}
