//! The accounting of the store's limit.
//!
//! Every byte is reserved before it is allocated, in whole pages, and released once its memory is free: a
//! [`Reservation`] lives as long as its memory. Without a reservation nothing is stored.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use headwater_abi::wire::FileHead;

/// With less than this part of the limit left, the store is short of room.
const SHORT_SHARE: u64 = 8;

/// The store's limit and its reservations; every thread may reserve.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Account>);

#[derive(Debug)]
struct Account {
    max: AtomicU64,
    taken: AtomicU64,
}

/// Bytes that are or may be allocated; released when it is dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    bytes: u64,
}

impl Default for Budget {
    /// Creates a budget without a limit.
    fn default() -> Budget {
        Budget(Arc::new(Account { max: u64::MAX.into(), taken: 0.into() }))
    }
}

impl Budget {
    /// Sets the limit for further reservations; existing ones stay.
    pub fn set_max(&self, max: u64) {
        self.0.max.store(max, Ordering::Relaxed);
    }

    /// Returns the reserved bytes.
    pub fn taken(&self) -> u64 {
        self.0.taken.load(Ordering::Relaxed)
    }

    /// Returns true if most of the limit is reserved.
    pub fn is_short(&self) -> bool {
        let max = self.0.max.load(Ordering::Relaxed);
        self.taken() >= max - max / SHORT_SHARE
    }

    /// Reserves bytes, or fails with [`io::ErrorKind::StorageFull`].
    pub fn reserve(&self, bytes: u64) -> io::Result<Reservation> {
        self.take(bytes)?;
        Ok(Reservation { budget: self.clone(), bytes })
    }

    /// Returns an empty reservation, which may grow.
    pub fn nothing(&self) -> Reservation {
        self.count(0)
    }

    /// Counts bytes that are allocated already, even beyond the limit.
    pub(super) fn count(&self, bytes: u64) -> Reservation {
        self.0.taken.fetch_add(bytes, Ordering::Relaxed);
        Reservation { budget: self.clone(), bytes }
    }

    fn take(&self, bytes: u64) -> io::Result<()> {
        let max = self.0.max.load(Ordering::Relaxed);
        let with = |taken: u64| taken.checked_add(bytes).filter(|sum| *sum <= max);
        match self.0.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with) {
            Ok(_) => Ok(()),
            Err(_) => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    fn release(&self, bytes: u64) {
        let before = self.0.taken.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "more bytes are released than were reserved");
    }
}

impl Reservation {
    /// Returns the number of bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Grows to at least this size, or fails with [`io::ErrorKind::StorageFull`].
    pub fn grow_to(&mut self, bytes: u64) -> io::Result<()> {
        let more = bytes.saturating_sub(self.bytes);
        self.budget.take(more)?;
        self.bytes += more;
        Ok(())
    }

    /// Sets the number of bytes that are really allocated.
    pub(super) fn settle(&mut self, bytes: u64) {
        if bytes > self.bytes {
            self.budget.0.taken.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            self.budget.release(self.bytes - bytes);
        }
        self.bytes = bytes;
    }

    /// Adds another reservation to this one.
    pub(super) fn join(&mut self, mut other: Reservation) {
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Moves up to so many bytes to a new reservation.
    pub(super) fn split(&mut self, bytes: u64) -> Reservation {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Reservation { budget: self.budget.clone(), bytes }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.release(self.bytes);
    }
}

/// Returns the unit in which memory is allocated, in bytes.
pub(super) fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// Rounds up to whole pages.
pub(crate) fn pages(bytes: u64) -> u64 {
    bytes.next_multiple_of(page_bytes())
}

/// Returns the bytes of the pages that the content of `head` covers.
pub(super) fn pages_of(head: &FileHead) -> u64 {
    let mut counted = 0;
    let of_range = |&(offset, bytes): &(u64, u64)| {
        let start = (offset - offset % page_bytes()).max(counted);
        counted = counted.max(pages(offset.saturating_add(bytes)));
        counted.saturating_sub(start)
    };
    head.ranges.iter().filter(|(_, bytes)| *bytes > 0).map(of_range).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_abi::Attr;
    use proptest::prelude::*;

    #[test]
    fn ranges_take_the_pages_that_they_touch_once() {
        let page = page_bytes();
        for (ranges, expected) in [
            (&[][..], 0),
            (&[(0, 1)], 1),
            (&[(page - 1, 2)], 2),
            (&[(0, 10), (20, 10)], 1),
            (&[(0, 10), (page + 10, 0), (2 * page - 1, 2)], 3),
            (&[(100, page), (2 * page - 1, 1)], 2),
        ] {
            let head = FileHead { attr: Attr::default(), format: 0, ranges: ranges.into(), whole: false };
            assert_eq!(pages_of(&head), expected * page, "{ranges:?}");
        }
    }

    proptest! {
        #[test]
        fn the_bound_holds_and_everything_comes_back(
            max in 0..1000u64,
            steps in prop::collection::vec((0..5u8, 0..400u64, 0..8usize), 1..80),
        ) {
            let budget = Budget::default();
            budget.set_max(max);
            let mut reservations: Vec<Reservation> = Vec::new();
            for (step, bytes, number) in steps {
                let before = budget.taken();
                let at = number % reservations.len().max(1);
                match step {
                    0 | 1 => match budget.reserve(bytes) {
                        Ok(reservation) => reservations.push(reservation),
                        Err(error) => {
                            prop_assert_eq!(error.kind(), io::ErrorKind::StorageFull);
                            prop_assert!(before + bytes > max);
                        }
                    },
                    _ if reservations.is_empty() => {}
                    2 => drop(reservations.swap_remove(at)),
                    3 => {
                        let known = reservations[at].bytes();
                        reservations[at].settle(bytes.min(known));
                        let _ = reservations[at].grow_to(bytes);
                    }
                    _ => {
                        let part = reservations[at].split(bytes);
                        reservations[0].join(part);
                        prop_assert_eq!(budget.taken(), before);
                    }
                }
                prop_assert!(budget.taken() <= max);
                prop_assert_eq!(budget.taken(), reservations.iter().map(Reservation::bytes).sum::<u64>());
            }
            drop(reservations);
            prop_assert_eq!(budget.taken(), 0);
        }
    }
}
