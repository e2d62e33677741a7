//! How long a silent peer is waited for: twice as long as before, once one that was given up for its
//! silence turns out to live.
//!
//! On a network or on processors that are overloaded all peers are slow, and giving them up makes that
//! worse: links are made anew, and what was on its way is sent again. A time-out that grows with each
//! mistake makes the mistakes end (Chandra and Toueg, "Unreliable failure detectors for reliable
//! distributed systems", JACM 43(2), 1996).

use crate::Time;

/// How often the time-outs are doubled at most.
pub(crate) const DOUBLINGS_MAX: u32 = 3;
/// After how long without a mistake one doubling is taken back, in milliseconds.
const CALM_MS: Time = 30_000;

/// How often the time-outs are doubled, and when they last were.
#[derive(Debug, Default)]
pub(crate) struct AdaptiveTimeouts {
    doublings: u32,
    doubled_at: Time,
}

impl AdaptiveTimeouts {
    /// How often time-outs are to be doubled now.
    pub(crate) fn doublings(&self, now: Time) -> u32 {
        let calm = now.saturating_sub(self.doubled_at) / CALM_MS;
        self.doublings.saturating_sub(u32::try_from(calm).unwrap_or(u32::MAX))
    }

    /// This time-out as it is to be used now.
    pub(crate) fn stretch(&self, now: Time, ms: Time) -> Time {
        ms.saturating_mul(1 << self.doublings(now))
    }

    /// Somebody lives who was given up after time-outs that were doubled so often.
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
