//! The common state of all mounts of the process.

use std::time::Duration;

use super::tally::{Pace, Tally};

pub(super) struct State {
    pub(super) tally: Tally,
    pub(super) pace: Pace,
    pub(super) entry_ttl: Duration,
    pub(super) attr_ttl: Duration,
    pub(super) retain_pages: bool,
}
