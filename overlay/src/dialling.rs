//! Which ranks this rank dials, and when.

use std::collections::BTreeMap;

use headwater_proto::{Rank, Time};
use mio::Token;

/// The shortest and the longest wait before a rank is dialled again, in milliseconds.
const WAIT_MS: (Time, Time) = (20, 1000);
/// In between, the wait is this part of the time since the first attempt, so a rank that starts late is found with
/// little further delay.
const WAIT_PART: Time = 16;

/// The ranks to dial: the parents.
#[derive(Debug, Default)]
pub(crate) struct Dialling(BTreeMap<Rank, Dialled>);

#[derive(Debug)]
struct Dialled {
    link: Option<Token>,
    dial_at: Time,
    /// The time of the first attempt since the last link.
    since: Option<Time>,
    /// No process listened at its address at the last attempt.
    is_absent: bool,
}

impl Dialling {
    /// Adds a rank to dial.
    pub(crate) fn add(&mut self, now: Time, rank: Rank) {
        self.0.entry(rank).or_insert(Dialled { link: None, dial_at: now, since: None, is_absent: false });
    }

    /// Removes a rank. Returns its link, if there is one.
    pub(crate) fn remove(&mut self, rank: Rank) -> Option<Token> {
        self.0.remove(&rank)?.link
    }

    /// Replaces the rank's link. Returns the earlier one.
    pub(crate) fn replace(&mut self, rank: Rank, link: Token) -> Option<Token> {
        self.0.get_mut(&rank)?.link.replace(link)
    }

    /// Returns all of them.
    pub(crate) fn ranks(&self) -> impl Iterator<Item = Rank> + '_ {
        self.0.keys().copied()
    }

    /// Returns those that listen, as far as is known.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = Rank> + '_ {
        self.0.iter().filter(|(_, dialled)| !dialled.is_absent).map(|(rank, _)| *rank)
    }

    /// Notes that no process listens at this rank's address.
    pub(crate) fn note_absent(&mut self, rank: Rank) {
        if let Some(dialled) = self.0.get_mut(&rank) {
            dialled.is_absent = true;
        }
    }

    /// Returns the time of the first attempt to dial this rank since its last link.
    pub(crate) fn since(&self, rank: Rank) -> Option<Time> {
        self.0.get(&rank)?.since
    }

    /// Returns the ranks that are due.
    pub(crate) fn due(&self, now: Time) -> Vec<Rank> {
        self.0.iter().filter(|(_, d)| d.link.is_none() && now >= d.dial_at).map(|(rank, _)| *rank).collect()
    }

    /// Returns when the next rank is due.
    pub(crate) fn next(&self) -> Option<Time> {
        self.0.values().filter(|d| d.link.is_none()).map(|d| d.dial_at).min()
    }

    /// Notes that a rank is being dialled by this link, and schedules the next attempt.
    pub(crate) fn began(&mut self, now: Time, rank: Rank, link: Token) {
        let Some(dialled) = self.0.get_mut(&rank) else { return };
        dialled.link = Some(link);
        let waited_ms = now - *dialled.since.get_or_insert(now);
        dialled.dial_at = now + (waited_ms / WAIT_PART).clamp(WAIT_MS.0, WAIT_MS.1);
    }

    /// Notes that this link has been greeted.
    pub(crate) fn greeted(&mut self, link: Token) {
        if let Some(dialled) = self.0.values_mut().find(|d| d.link == Some(link)) {
            (dialled.since, dialled.is_absent) = (None, false);
        }
    }

    /// Notes that this link has ended.
    pub(crate) fn ended(&mut self, now: Time, link: Token) {
        if let Some(dialled) = self.0.values_mut().find(|d| d.link == Some(link)) {
            dialled.link = None;
            dialled.dial_at = dialled.dial_at.max(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_rank_is_dialled_ever_less_often() {
        let (mut dialling, rank) = (Dialling::default(), Rank(3));
        dialling.add(5, rank);
        let (mut now, mut waits) = (5, Vec::new());
        for number in 0..200 {
            assert_eq!((dialling.due(now), dialling.next()), (vec![rank], Some(now)));
            dialling.began(now, rank, Token(number));
            assert_eq!((dialling.due(now + 9999), dialling.next()), (vec![], None));
            dialling.ended(now, Token(number));
            let next = dialling.next().unwrap();
            waits.push(next - now);
            now = next;
        }
        assert!(waits.is_sorted(), "{waits:?}");
        assert_eq!((waits[0], waits[199]), (20, 1000));
        let late = waits.iter().scan(0, |since, wait| {
            let is_late = *wait > (*since / WAIT_PART).max(20);
            *since += wait;
            Some(is_late)
        });
        assert_eq!(late.filter(|is_late| *is_late).count(), 0, "{waits:?}");
        let in_starting_time = waits.iter().scan(0, |since, wait| Some(std::mem::replace(since, *since + wait)));
        assert!(in_starting_time.take_while(|since| *since < 10_000).count() < 80);
    }

    #[test]
    fn a_rank_without_a_listener_is_not_awaited_until_it_links() {
        let (mut dialling, rank) = (Dialling::default(), Rank(3));
        dialling.add(0, rank);
        assert_eq!(dialling.awaited().count(), 1);
        dialling.note_absent(rank);
        dialling.began(20, rank, Token(1));
        assert_eq!((dialling.awaited().count(), dialling.ranks().count()), (0, 1));
        dialling.greeted(Token(1));
        assert_eq!(dialling.awaited().count(), 1);
    }

    #[test]
    fn a_link_that_stood_is_made_again_at_once() {
        let (mut dialling, rank) = (Dialling::default(), Rank(3));
        dialling.add(0, rank);
        dialling.began(0, rank, Token(1));
        dialling.greeted(Token(1));
        dialling.ended(500, Token(1));
        assert_eq!(dialling.due(500), [rank]);
        dialling.began(500, rank, Token(2));
        dialling.ended(500, Token(2));
        assert_eq!(dialling.next(), Some(520));
    }

    #[test]
    fn a_removed_rank_is_dialled_no_more() {
        let (mut dialling, rank) = (Dialling::default(), Rank(3));
        dialling.add(0, rank);
        dialling.began(0, rank, Token(1));
        assert_eq!(dialling.remove(rank), Some(Token(1)));
        dialling.ended(0, Token(1));
        assert_eq!((dialling.due(9999), dialling.next(), dialling.ranks().count()), (vec![], None, 0));
        dialling.add(7, rank);
        dialling.add(9, rank);
        assert_eq!(dialling.due(7), [rank], "again, without a wait");
    }
}
