//! Eviction from a full store: SIEVE (Zhang et al., NSDI'24). Content is in the order of its completion; a
//! hand moves from the oldest to the newest, passes what was used since its last visit, and evicts the first
//! that was not.
//!
//! A node sees only some uses: children's requests, and a refused eviction of a file that a process has open
//! or mapped. Such content stays in its position, as if a mark had been cleared.

use alloc::collections::BTreeMap;

use headwater_abi::Path;

/// The order of eviction and the bytes in use.
#[derive(Debug, Default)]
pub(crate) struct Sieve {
    /// Complete content, the oldest first, and whether it was used.
    order: BTreeMap<u64, (Path, bool)>,
    next_order: u64,
    /// Where the next visit begins: at the first content from here on.
    hand: u64,
    bytes: u64,
}

impl Sieve {
    /// Adds content. Returns its position in the order.
    pub(crate) fn insert(&mut self, path: Path) -> u64 {
        if self.order.range(self.hand..).next().is_none() {
            // The hand has passed the newest and begins again at the oldest, not at what is added now.
            self.hand = 0;
        }
        let order = self.next_order;
        self.next_order += 1;
        self.order.insert(order, (path, false));
        order
    }

    pub(crate) fn remove(&mut self, order: u64) {
        self.order.remove(&order);
    }

    /// Restores a victim at its position, because it is in use: the hand has passed it.
    pub(crate) fn put_back(&mut self, order: u64, path: Path) {
        self.order.insert(order, (path, false));
    }

    /// Marks the content at this position as used.
    pub(crate) fn touch(&mut self, order: u64) {
        if let Some((_, used)) = self.order.get_mut(&order) {
            *used = true;
        }
    }

    /// Returns the next to evict, among those that `may_go` accepts; it stays in the order until it is
    /// removed.
    pub(crate) fn victim(&mut self, may_go: impl Fn(&Path) -> bool) -> Option<Path> {
        // Two rounds: the first may only clear marks.
        for _ in 0..self.order.len() * 2 {
            let at = self.order.range(self.hand..).next().or_else(|| self.order.iter().next());
            let order = *at?.0;
            self.hand = order + 1;
            let (path, used) = self.order.get_mut(&order)?;
            if !core::mem::take(used) && may_go(path) {
                return Some(path.clone());
            }
        }
        None
    }

    /// Returns the bytes in use or reserved for arriving content.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn files(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn take(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    pub(crate) fn release(&mut self, bytes: u64) {
        self.bytes = self.bytes.checked_sub(bytes).expect("no more is given back than was taken");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn path(n: u64) -> Path {
        Path::new(format!("/{n}").as_bytes()).unwrap()
    }

    #[test]
    fn used_content_is_passed_once() {
        let mut sieve = Sieve::default();
        let orders: Vec<u64> = (0..4).map(|n| sieve.insert(path(n))).collect();
        sieve.touch(orders[0]);
        assert_eq!(sieve.victim(|_| true), Some(path(1)));
        sieve.remove(orders[1]);
        assert_eq!(sieve.victim(|_| true), Some(path(2)));
        assert_eq!(sieve.victim(|p| *p != path(3)), Some(path(0)), "its mark was cleared on the first visit");
        assert_eq!(sieve.victim(|_| false), None);
        assert_eq!(Sieve::default().victim(|_| true), None);
    }

    #[test]
    fn the_newest_is_not_the_next_after_a_round() {
        let mut sieve = Sieve::default();
        let orders: Vec<u64> = (0..3).map(|n| sieve.insert(path(n))).collect();
        sieve.touch(orders[0]);
        sieve.touch(orders[1]);
        assert_eq!(sieve.victim(|_| true), Some(path(2)));
        sieve.remove(orders[2]);
        sieve.insert(path(3));
        assert_eq!(sieve.victim(|_| true), Some(path(0)));
    }

    /// The paper's algorithm 1, over its linked list; here the oldest is first.
    #[derive(Clone, Default)]
    struct Algorithm1 {
        queue: Vec<(u64, bool)>,
        hand: Option<u64>,
    }

    impl Algorithm1 {
        fn at(&self, object: u64) -> usize {
            self.queue.iter().position(|(o, _)| *o == object).unwrap()
        }

        /// Returns the next object towards the head, where new ones are added.
        fn before(&self, object: u64) -> Option<u64> {
            self.queue.get(self.at(object) + 1).map(|(o, _)| *o)
        }

        fn remove(&mut self, object: u64) {
            if self.hand == Some(object) {
                self.hand = self.before(object);
            }
            self.queue.remove(self.at(object));
        }

        fn evict(&mut self) -> Option<u64> {
            let tail = self.queue.first()?.0;
            let mut object = self.hand.unwrap_or(tail);
            let mut at = self.at(object);
            while core::mem::take(&mut self.queue[at].1) {
                object = self.before(object).unwrap_or(tail);
                at = self.at(object);
            }
            self.hand = self.before(object);
            self.queue.remove(at);
            Some(object)
        }
    }

    proptest! {
        #[test]
        fn it_evicts_as_the_papers_algorithm(
            steps in prop::collection::vec((0..6u8, any::<prop::sample::Index>()), 0..200),
        ) {
            let (mut sieve, mut paper) = (Sieve::default(), Algorithm1::default());
            for (step, which) in steps {
                let some = (!paper.queue.is_empty()).then(|| paper.queue[which.index(paper.queue.len())].0);
                match (step, some) {
                    (0 | 1, _) => {
                        let order = sieve.insert(path(sieve.next_order));
                        paper.queue.push((order, false));
                    }
                    (2, Some(object)) => {
                        sieve.touch(object);
                        let at = paper.at(object);
                        paper.queue[at].1 = true;
                    }
                    (3, Some(object)) => {
                        sieve.remove(object);
                        paper.remove(object);
                    }
                    // A refused eviction shows that the object was used.
                    (4, Some(_)) => {
                        let object = paper.clone().evict().expect("there is content");
                        let at = paper.at(object);
                        if core::mem::replace(&mut paper.queue[at].1, true) {
                            continue;
                        }
                        prop_assert_eq!(sieve.victim(|_| true), Some(path(object)));
                        sieve.remove(object);
                        sieve.put_back(object, path(object));
                        let (victim, evicted) = (sieve.victim(|_| true), paper.evict());
                        prop_assert_eq!(&victim, &evicted.map(path));
                        evicted.into_iter().for_each(|object| sieve.remove(object));
                    }
                    _ => {
                        let (victim, evicted) = (sieve.victim(|_| true), paper.evict());
                        prop_assert_eq!(&victim, &evicted.map(path));
                        evicted.into_iter().for_each(|object| sieve.remove(object));
                    }
                }
                prop_assert_eq!(sieve.files(), paper.queue.len());
            }
        }
    }
}
