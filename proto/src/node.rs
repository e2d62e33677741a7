//! One node's decisions.

use alloc::collections::VecDeque;

use crate::{Config, Input, Output, Stats, Time};

/// The state machine of one node.
#[derive(Debug)]
pub struct Node {
    config: Config,
    outputs: VecDeque<Output>,
}

impl Node {
    /// A node that knows nothing. `seed` decides what is left to chance.
    pub fn new(config: Config, seed: u64) -> Node {
        let _ = seed;
        Node { config, outputs: VecDeque::new() }
    }

    /// Takes an input in.
    pub fn handle(&mut self, now: Time, input: Input) {
        let _ = (now, input, &self.config);
    }

    /// The next thing to do, in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Node::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        let _ = now;
    }

    /// Counters.
    pub fn stats(&self) -> Stats {
        Stats::default()
    }
}
