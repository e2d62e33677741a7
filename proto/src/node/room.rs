//! Changing the store's limit while the node runs.

use super::Node;

/// Files that are evicted at once: few enough for the driver to have answered for all before the next.
const GIVEN_UP_AT_ONCE_MAX: usize = 64;

impl Node {
    /// Sets the store's limit, and evicts content beyond it. What is arriving, being sent or in use stays;
    /// the hand of the eviction order has then passed it, so the next attempt begins behind it.
    pub(super) fn set_room(&mut self, store_bytes_max: u64) {
        self.config.limits.store_bytes_max = store_bytes_max;
        for _ in 0..GIVEN_UP_AT_ONCE_MAX {
            if self.sieve.bytes() <= store_bytes_max {
                return;
            }
            let Some(victim) = self.victim(|_| true) else { return };
            self.evict(victim.clone(), &victim);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Input, Limits, Memory, Output, Policy, Rank};
    use alloc::format;
    use alloc::vec::Vec;
    use headwater_abi::attr::mode;
    use headwater_abi::{Attr, Path};
    use headwater_topology::{Branching, Forest, Shape};

    use crate::stored::whole_head;

    fn path(number: u64) -> Path {
        Path::new(format!("/sw/{number:03}").as_bytes()).unwrap()
    }

    /// Returns a node with so many files of ten bytes.
    fn node(files: u64) -> Node {
        let mut node = Node::new(
            Config {
                rank: Rank(0),
                forest: Forest::new(1, 0, Shape::Single(Branching::KAry(1))),
                session: 1,
                policy: Policy::Pull,
                limits: Limits::default(),
                scope: [(true, Path::new(b"/sw").unwrap())].into(),
            },
            1,
        );
        for number in 0..files {
            let attr = Attr { mode: mode::FILE, ino: number, nlink: 1, size: 10, ..Attr::default() };
            node.restore(&path(number), Memory::Fact(headwater_abi::wire::Fact::Attr(attr)));
            node.restore(&path(number), Memory::Content { head: whole_head(attr, 0), is_linked: false });
        }
        node
    }

    fn evicted(node: &mut Node) -> Vec<Path> {
        let outputs = core::iter::from_fn(|| node.poll_output());
        outputs.filter_map(|output| if let Output::Evict { path } = output { Some(path) } else { None }).collect()
    }

    #[test]
    fn a_smaller_limit_evicts_the_oldest_first() {
        let mut node = node(5);
        node.handle(0, Input::Room { store_bytes_max: 29 });
        assert_eq!(evicted(&mut node), [path(0), path(1), path(2)]);
        assert_eq!(node.stats().store_bytes, 20);
        node.handle(0, Input::Room { store_bytes_max: 1000 });
        assert_eq!(evicted(&mut node), []);
    }

    #[test]
    fn content_in_use_is_tried_once_a_round() {
        let mut node = node(4);
        node.handle(0, Input::Room { store_bytes_max: 20 });
        assert_eq!(evicted(&mut node), [path(0), path(1)]);
        for number in 0..2 {
            node.handle(0, Input::EvictRefused { path: path(number) });
            assert_eq!(evicted(&mut node), [], "a refusal alone gives nothing up");
        }
        assert_eq!(node.stats().store_bytes, 40);
        node.handle(0, Input::Room { store_bytes_max: 20 });
        assert_eq!(evicted(&mut node), [path(2), path(3)]);
        assert_eq!((node.stats().store_bytes, node.stats().evictions), (20, 2));
    }

    #[test]
    fn many_files_go_in_several_steps() {
        let mut node = node(200);
        let mut steps = 0;
        while node.stats().store_bytes > 0 {
            node.handle(0, Input::Room { store_bytes_max: 0 });
            assert!((1..=GIVEN_UP_AT_ONCE_MAX).contains(&evicted(&mut node).len()));
            steps += 1;
        }
        assert_eq!(steps, 4);
        node.handle(0, Input::Room { store_bytes_max: 0 });
        assert_eq!(evicted(&mut node), []);
    }
}
