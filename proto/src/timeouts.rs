//! Timeouts for silent peers, which double when a peer that was given up turns out to be alive.
//!
//! On an overloaded network or processor all peers are slow, and giving them up adds load: links are made
//! again, and content is sent again. Timeouts that grow with each mistake end the mistakes (Chandra and
//! Toueg, "Unreliable failure detectors for reliable distributed systems", JACM 43(2), 1996).

use crate::Time;

/// Doublings of the timeouts at most.
pub(crate) const DOUBLINGS_MAX: u32 = 3;
/// Time without a mistake after which one doubling is undone, in milliseconds.
const CALM_MS: Time = 30_000;

/// How often the timeouts are doubled, and when they last were.
#[derive(Debug, Default)]
pub(crate) struct AdaptiveTimeouts {
    doublings: u32,
    doubled_at: Time,
}

impl AdaptiveTimeouts {
    /// Returns how often the timeouts are doubled now.
    pub(crate) fn doublings(&self, now: Time) -> u32 {
        let calm = now.saturating_sub(self.doubled_at) / CALM_MS;
        self.doublings.saturating_sub(u32::try_from(calm).unwrap_or(u32::MAX))
    }

    /// Returns the timeout in force for `ms`.
    pub(crate) fn stretch(&self, now: Time, ms: Time) -> Time {
        ms.saturating_mul(1 << self.doublings(now))
    }

    /// Doubles the timeouts, because a peer is alive that was given up after `doublings` doublings.
    pub(crate) fn was_too_short(&mut self, now: Time, doublings: u32) {
        self.doublings = self.doublings(now).max(doublings + 1).min(DOUBLINGS_MAX);
        self.doubled_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_lengthen_and_calm_shortens() {
        let mut timeouts = AdaptiveTimeouts::default();
        assert_eq!(timeouts.stretch(5, 100), 100);
        // Several peers that were given up at once are one mistake.
        for now in [10, 11, 12] {
            timeouts.was_too_short(now, 0);
        }
        assert_eq!(timeouts.stretch(12, 100), 200);
        timeouts.was_too_short(12, 1);
        assert_eq!(timeouts.stretch(12, 100), 400);
        for doublings in [3, 7] {
            timeouts.was_too_short(12, doublings);
        }
        assert_eq!(timeouts.stretch(12, 100), 800);
        let [less, none] = [12 + CALM_MS, 12 + 3 * CALM_MS].map(|now| timeouts.stretch(now, 100));
        assert_eq!((less, none), (400, 100));
        timeouts.was_too_short(12 + CALM_MS, 0);
        assert_eq!(timeouts.stretch(12 + CALM_MS, 100), 400, "what was learnt is not unlearnt");
    }
}
