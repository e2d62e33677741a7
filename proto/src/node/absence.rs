//! A parent that was lost but may come back, since somebody starts its successor: meanwhile questions
//! wait for it.

use alloc::vec::Vec;

use super::ask::EIO;
use super::{Link, Node};
use crate::Time;
use crate::asks::Way;
use crate::entry::Piece;

impl Node {
    /// The parent's link is gone. What was asked of it is asked again if it comes back in time.
    pub(super) fn parent_away(&mut self, now: Time) {
        let absence_ms = self.config.limits.parent_absence_ms_max;
        let Some(parent) = &mut self.parent else { return };
        // First, so that nothing is asked of it meanwhile.
        parent.link = Link::Away(now.saturating_add(absence_ms));
        if absence_ms == 0 {
            self.parent_down(now);
        }
        let Some(parent) = &mut self.parent else { return };
        let arriving: Vec<Piece> = core::mem::take(&mut parent.incoming).into_values().collect();
        for (path, block) in arriving {
            if let Some(arriving) = self.drop_arriving(&path, block, false) {
                self.fail_children((path, block), &arriving, EIO);
            }
        }
        for key in self.asks.keys(|_, ask| ask.way == Way::Asked) {
            self.asks.set_way(&key, Way::Later);
        }
    }

    /// When a parent that is away counts as gone.
    pub(super) fn absence_ends(&self) -> Option<Time> {
        match self.parent.as_ref()?.link {
            Link::Away(until) => Some(until),
            Link::Starting | Link::Up | Link::Down => None,
        }
    }

    /// Stops to wait for a parent that has been away too long.
    pub(super) fn end_absence(&mut self, now: Time) {
        if self.absence_ends().is_none_or(|until| until > now) {
            return;
        }
        if let Some(parent) = &mut self.parent {
            parent.link = Link::Down;
        }
        // Also the questions that waited for its first sign of life.
        self.fail_all(|_| true);
        self.fail_refreshes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use headwater_abi::wire::{Aspect, Message};
    use headwater_abi::{Path, Want};

    use crate::{ClientId, Config, Input, Limits, Output, Policy, Rank, Reply, Topology};

    fn path() -> Path {
        Path::new(b"/sw/a").unwrap()
    }

    fn node() -> Node {
        let config = Config {
            rank: Rank(1),
            topology: Topology::new(2, 1),
            session: 0,
            policy: Policy::Pull,
            limits: Limits { parent_absence_ms_max: 3000, ..Limits::default() },
            scope: vec![(true, Path::new(b"/sw").unwrap())],
        };
        let mut node = Node::new(config, 0);
        node.handle(0, Input::PeerUp { rank: Rank(0) });
        node.handle(0, Input::Request { client: ClientId(1), path: path(), want: Want::ATTR });
        assert_eq!(outputs(&mut node), [asked()]);
        node
    }

    fn asked() -> Output {
        let path = Path::new(b"/sw").unwrap();
        Output::Send { to: Rank(0), message: Message::Want { path, aspect: Aspect::Listing, position: 0 } }
    }

    fn outputs(node: &mut Node) -> Vec<Output> {
        core::iter::from_fn(|| node.poll_output()).collect()
    }

    #[test]
    fn a_parent_that_comes_back_is_asked_again() {
        let mut node = node();
        node.handle(10, Input::PeerDown { rank: Rank(0) });
        node.handle(11, Input::Request { client: ClientId(2), path: path(), want: Want::ATTR });
        assert_eq!(outputs(&mut node), []);
        node.handle(2000, Input::PeerUp { rank: Rank(0) });
        assert_eq!(outputs(&mut node), [asked()]);
        node.handle_timeout(4000);
        assert_eq!(outputs(&mut node), []);
    }

    #[test]
    fn one_that_does_not_is_given_up() {
        let mut node = node();
        node.handle(10, Input::PeerDown { rank: Rank(0) });
        assert_eq!(node.poll_timeout(), Some(3010));
        node.handle_timeout(3009);
        assert_eq!(outputs(&mut node), []);
        node.handle_timeout(3010);
        assert_eq!(outputs(&mut node), [Output::Reply { client: ClientId(1), reply: Reply::Fallback }]);
        node.handle(3011, Input::Request { client: ClientId(3), path: path(), want: Want::ATTR });
        assert_eq!(outputs(&mut node), [Output::Reply { client: ClientId(3), reply: Reply::Fallback }]);
    }
}
