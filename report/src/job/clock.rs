//! Estimates how far a node's clock is from the front end's, from messages in both directions.

/// The bounds of the difference of two clocks: that of the front end minus that of the node, in microseconds.
///
/// A message arrives after it was sent. So a message from the node bounds the difference from above, and one to the node
/// bounds it from below (as in NTP: RFC 5905, section 8). The estimate is the middle, and is wrong by at most half of the
/// distance. The clocks must run equally fast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    above: Option<i64>,
    below: Option<i64>,
}

impl Clock {
    /// Returns the difference of a clock and itself.
    pub fn same() -> Clock {
        Clock { above: Some(0), below: Some(0) }
    }

    /// Notes a message from the node: when it was sent, by the node's clock, and when it arrived, by the front end's.
    pub fn received(&mut self, sent_us: u64, arrived_us: u64) {
        let bound = arrived_us as i64 - sent_us as i64;
        self.above = Some(self.above.map_or(bound, |above| above.min(bound)));
    }

    /// Notes a message to the node: when it was sent, by the front end's clock, and when it arrived, by the node's.
    pub fn sent(&mut self, sent_us: u64, arrived_us: u64) {
        let bound = sent_us as i64 - arrived_us as i64;
        self.below = Some(self.below.map_or(bound, |below| below.max(bound)));
    }

    /// Returns the difference, and by how much it may be wrong; `None` for the latter if only one direction is known.
    pub fn difference_us(&self) -> (i64, Option<u64>) {
        match (self.below, self.above) {
            (Some(below), Some(above)) => {
                // Clocks that don't run equally fast may have crossed bounds.
                let error = (above - below).unsigned_abs().div_ceil(2);
                (below + (above - below) / 2, Some(error))
            }
            (one, other) => (one.or(other).unwrap_or(0), None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_in_both_directions_bound_the_difference() {
        assert_eq!(Clock::same().difference_us(), (0, Some(0)));
        assert_eq!(Clock::default().difference_us(), (0, None));
        let mut clock = Clock::default();
        // The node's clock is 1,000 behind; messages take 30 and 80, and 200.
        clock.received(5_000, 6_080);
        assert_eq!(clock.difference_us(), (1_080, None));
        clock.received(6_000, 7_030);
        clock.sent(8_000, 7_200);
        assert_eq!(clock.difference_us(), (915, Some(115)));
        let mut negative = Clock::default();
        negative.received(5_000, 4_010);
        negative.sent(6_000, 7_010);
        assert_eq!(negative.difference_us(), (-1_000, Some(10)));
    }
}
