//! Which content leaves a full store: SIEVE (Zhang et al., NSDI'24). Content stands in the order of
//! its completion; a hand moves from the oldest to the newest, passes what was used since its last
//! visit, and evicts the first that was not.
//!
//! A node sees only those uses that reach it: children's requests, and that a process has the file
//! open or mapped when it is to be evicted.

use alloc::collections::BTreeMap;

use headwater_abi::Path;

/// The order of eviction and the bytes in use.
#[derive(Debug, Default)]
pub(crate) struct Sieve {
    /// Complete content, the oldest first, and whether it was used.
    order: BTreeMap<u64, (Path, bool)>,
    next_order: u64,
    hand: u64,
    bytes: u64,
}

impl Sieve {
    /// Adds content; its place in the order.
    pub(crate) fn insert(&mut self, path: Path) -> u64 {
        let order = self.next_order;
        self.next_order += 1;
        self.order.insert(order, (path, false));
        order
    }

    pub(crate) fn remove(&mut self, order: u64) {
        self.order.remove(&order);
    }

    /// The content at this place was used.
    pub(crate) fn touch(&mut self, order: u64) {
        if let Some((_, used)) = self.order.get_mut(&order) {
            *used = true;
        }
    }

    /// The next to evict, among those that `may_go`; it stays in the order until it is removed.
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

    /// Bytes in use or kept free for what arrives.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn files(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn take(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    pub(crate) fn give_back(&mut self, bytes: u64) {
        self.bytes = self.bytes.checked_sub(bytes).expect("no more is given back than was taken");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn used_content_is_passed_once() {
        let path = |n: u64| Path::new(format!("/{n}").as_bytes()).unwrap();
        let mut sieve = Sieve::default();
        let orders: alloc::vec::Vec<u64> = (0..4).map(|n| sieve.insert(path(n))).collect();
        sieve.touch(orders[0]);
        assert_eq!(sieve.victim(|_| true), Some(path(1)));
        sieve.remove(orders[1]);
        assert_eq!(sieve.victim(|_| true), Some(path(2)));
        assert_eq!(sieve.victim(|p| *p != path(3)), Some(path(0)), "its mark was cleared on the first visit");
        assert_eq!(sieve.victim(|_| false), None);
        assert_eq!(Sieve::default().victim(|_| true), None);
    }
}
