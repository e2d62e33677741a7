//! Confirmations: a process that changes something goes on when all nodes know of it.
//!
//! Announcements and a wave of questions behind them travel along the same links, in order. A node answers a question
//! when the nodes beyond it have answered its own. At most one wave is under way to a place. What is announced
//! meanwhile is confirmed by the next, so that the messages of a link don't grow with the changes.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::{ClientId, Peer, Time};

/// How long a place may take to confirm before changes no longer wait for it, in milliseconds.
const LATE_MS: Time = 5000;

/// Where announcements go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// This node's kernel, which forgets what it caches.
    Kernel,
    Peer(Peer),
}

/// Who waits for confirmations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Asker {
    /// A process that is about to change something.
    Client(ClientId),
    /// A peer, by its wave's number.
    Peer(Peer, u32),
}

impl Asker {
    /// Returns true if this asker waits for `place`: a process not for its own kernel, which may hold locks on its
    /// behalf, and a peer not for itself.
    fn waits_for(self, place: Place) -> bool {
        match self {
            Asker::Client(_) => place != Place::Kernel,
            Asker::Peer(peer, _) => place != Place::Peer(peer),
        }
    }
}

/// The waves to one place.
#[derive(Debug, Default)]
struct Waves {
    /// Something was announced since the last wave.
    has_unconfirmed: bool,
    /// The number of the last wave.
    number: u32,
    /// When it was sent, until it is confirmed.
    sent_at: Option<Time>,
    /// A process or a peer waits for the next.
    is_next_wanted: bool,
    /// The last took too long. Nobody waits for this place until it confirms.
    is_late: bool,
}

impl Waves {
    /// Sends the next wave, and returns its number.
    fn send(&mut self, now: Time) -> u32 {
        self.number = self.number.wrapping_add(1);
        (self.sent_at, self.has_unconfirmed, self.is_next_wanted) = (Some(now), false, false);
        self.number
    }
}

/// The waves of a node, and who waits for them.
#[derive(Debug, Default)]
pub(crate) struct Confirmations {
    places: BTreeMap<Place, Waves>,
    /// By asker: the places that it waits for, and the waves.
    waiting: BTreeMap<Asker, BTreeMap<Place, u32>>,
}

impl Confirmations {
    /// Notes an announcement to `place`.
    pub(crate) fn announced(&mut self, place: Place) {
        self.places.entry(place).or_default().has_unconfirmed = true;
    }

    /// Lets `asker` wait until everything that has been announced is confirmed. Returns the waves to send, with their
    /// numbers.
    pub(crate) fn ask(&mut self, now: Time, asker: Asker) -> Vec<(Place, u32)> {
        let (mut sent, mut awaited) = (Vec::new(), BTreeMap::new());
        for (&place, waves) in self.places.iter_mut().filter(|(place, _)| asker.waits_for(**place)) {
            match (waves.has_unconfirmed, waves.sent_at) {
                _ if waves.is_late => {}
                (true, None) => {
                    let number = waves.send(now);
                    sent.push((place, number));
                    awaited.insert(place, number);
                }
                (true, Some(_)) => {
                    waves.is_next_wanted = true;
                    awaited.insert(place, waves.number.wrapping_add(1));
                }
                (false, Some(_)) => {
                    awaited.insert(place, waves.number);
                }
                (false, None) => {}
            }
        }
        self.waiting.insert(asker, awaited);
        sent
    }

    /// Handles a confirmation. Returns the number of the next wave if one is to be sent, or an error if no such wave is
    /// under way.
    pub(crate) fn confirmed(&mut self, now: Time, place: Place, number: u32) -> Result<Option<u32>, &'static str> {
        let waves = self.places.get_mut(&place).filter(|waves| waves.sent_at.is_some() && waves.number == number);
        let waves = waves.ok_or("a confirmation that was not asked for")?;
        (waves.sent_at, waves.is_late) = (None, false);
        let next = waves.is_next_wanted.then(|| waves.send(now));
        for awaited in self.waiting.values_mut() {
            if awaited.get(&place) == Some(&number) {
                awaited.remove(&place);
            }
        }
        Ok(next)
    }

    /// Forgets a place that is gone: nobody waits for it, and it waits for nobody.
    pub(crate) fn forget(&mut self, place: Place) {
        self.places.remove(&place);
        self.waiting.retain(|asker, _| !matches!(asker, Asker::Peer(peer, _) if Place::Peer(*peer) == place));
        self.end_waiting_for(place);
    }

    /// Forgets a process that no longer waits.
    pub(crate) fn forget_client(&mut self, client: ClientId) {
        self.waiting.remove(&Asker::Client(client));
    }

    /// Returns true if this peer already waits for an answer.
    pub(crate) fn is_asked_by(&self, peer: Peer) -> bool {
        self.waiting.keys().any(|asker| matches!(asker, Asker::Peer(other, _) if *other == peer))
    }

    /// Returns true if a wave to `place` has not been confirmed.
    pub(crate) fn is_owed_by(&self, place: Place) -> bool {
        self.places.get(&place).is_some_and(|waves| waves.sent_at.is_some())
    }

    /// Returns those who wait for nothing any more, and forgets them.
    pub(crate) fn take_done(&mut self) -> Vec<Asker> {
        let done = self.waiting.iter().filter(|(_, awaited)| awaited.is_empty());
        let done: Vec<Asker> = done.map(|(&asker, _)| asker).collect();
        self.waiting.retain(|_, awaited| !awaited.is_empty());
        done
    }

    /// Returns how many processes and peers wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns when [`Confirmations::overdue`] is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let waves = self.places.values().filter(|waves| !waves.is_late);
        waves.filter_map(|waves| waves.sent_at).min().map(|at| at.saturating_add(LATE_MS))
    }

    /// Ends the waiting for places that take too long.
    pub(crate) fn overdue(&mut self, now: Time) {
        let is_overdue = |waves: &Waves| waves.sent_at.is_some_and(|at| now.saturating_sub(at) >= LATE_MS);
        let late = self.places.iter_mut().filter(|(_, waves)| is_overdue(waves) && !waves.is_late);
        let late = late.map(|(&place, waves)| {
            (waves.is_late, waves.is_next_wanted) = (true, false);
            place
        });
        late.collect::<Vec<Place>>().into_iter().for_each(|place| self.end_waiting_for(place));
    }

    fn end_waiting_for(&mut self, place: Place) {
        for awaited in self.waiting.values_mut() {
            awaited.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::Rank;

    const UP: Place = Place::Peer(Peer::Parent(Rank(0)));
    const DOWN: Place = Place::Peer(Peer::Child(Rank(2)));
    const BELOW: Asker = Asker::Peer(Peer::Child(Rank(2)), 7);

    fn client(number: u64) -> Asker {
        Asker::Client(ClientId(number))
    }

    #[test]
    fn nobody_waits_for_what_was_not_announced() {
        let mut confirmations = Confirmations::default();
        assert_eq!(confirmations.ask(0, client(1)), []);
        assert_eq!(confirmations.take_done(), [client(1)]);
        confirmations.announced(Place::Kernel);
        confirmations.announced(DOWN);
        assert_eq!(confirmations.ask(0, BELOW), [(Place::Kernel, 1)], "it doesn't wait for itself");
        assert_eq!(confirmations.ask(0, client(2)), [(DOWN, 1)], "nor a process for its kernel");
        assert_eq!(confirmations.take_done(), []);
    }

    #[test]
    fn one_wave_is_under_way_and_the_next_serves_all_that_came_meanwhile() {
        let mut confirmations = Confirmations::default();
        confirmations.announced(UP);
        assert_eq!(confirmations.ask(0, client(1)), [(UP, 1)]);
        assert_eq!(confirmations.ask(1, client(2)), [], "nothing new was announced: the same wave");
        confirmations.announced(UP);
        assert_eq!((confirmations.ask(2, client(3)), confirmations.ask(3, client(4))), (vec![], vec![]));
        assert_eq!(confirmations.confirmed(4, UP, 1), Ok(Some(2)));
        assert_eq!(confirmations.take_done(), [client(1), client(2)]);
        assert!(confirmations.confirmed(4, UP, 1).is_err() && confirmations.confirmed(4, DOWN, 1).is_err());
        assert_eq!(confirmations.confirmed(5, UP, 2), Ok(None));
        assert_eq!(confirmations.take_done(), [client(3), client(4)]);
        assert_eq!((confirmations.len(), confirmations.deadline()), (0, None));
    }

    #[test]
    fn what_is_gone_or_late_holds_up_nobody() {
        let mut confirmations = Confirmations::default();
        confirmations.announced(UP);
        confirmations.announced(DOWN);
        confirmations.ask(0, client(1));
        confirmations.ask(0, BELOW);
        assert!(confirmations.is_asked_by(Peer::Child(Rank(2))));
        confirmations.forget(DOWN);
        assert!(!confirmations.is_asked_by(Peer::Child(Rank(2))));
        assert_eq!((confirmations.take_done(), confirmations.deadline()), (vec![], Some(LATE_MS)));
        confirmations.overdue(LATE_MS);
        assert_eq!((confirmations.take_done(), confirmations.deadline()), (vec![client(1)], None));
        confirmations.announced(UP);
        assert_eq!(confirmations.ask(LATE_MS, client(2)), [], "it is late still");
        assert_eq!(confirmations.take_done(), [client(2)]);
        assert_eq!(confirmations.confirmed(LATE_MS, UP, 1), Ok(None));
        assert_eq!(confirmations.ask(LATE_MS, client(3)), [(UP, 2)], "and then no more");
        confirmations.forget_client(ClientId(3));
        assert_eq!(confirmations.len(), 0);
    }
}
