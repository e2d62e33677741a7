//! Limits the reports of refused connections to one of each kind, so that they can't fill the log.

use std::collections::BTreeMap;

use headwater_proto::Time;

/// How long until a kind is reported again, in milliseconds.
const REPEAT_MS_MIN: Time = 600_000;

/// The reported kinds, all of which are constants of the code.
#[derive(Debug, Default)]
pub(crate) struct Refusals(BTreeMap<&'static str, Kind>);

#[derive(Debug)]
struct Kind {
    reported_at: Time,
    unreported: u64,
}

impl Refusals {
    /// Notes a refusal. If it is to be reported, returns the number of unreported ones of its kind.
    pub(crate) fn note(&mut self, now: Time, kind: &'static str) -> Option<u64> {
        let Some(kind) = self.0.get_mut(kind) else {
            self.0.insert(kind, Kind { reported_at: now, unreported: 0 });
            return Some(0);
        };
        if now < kind.reported_at + REPEAT_MS_MIN {
            kind.unreported += 1;
            return None;
        }
        kind.reported_at = now;
        Some(std::mem::take(&mut kind.unreported))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_reported_once_in_a_while() {
        let mut refusals = Refusals::default();
        assert_eq!(refusals.note(5, "a"), Some(0));
        assert_eq!(refusals.note(6, "b"), Some(0));
        for now in 0..1000 {
            assert_eq!(refusals.note(5 + now, "a"), None);
        }
        assert_eq!(refusals.note(5 + REPEAT_MS_MIN - 1, "a"), None);
        assert_eq!(refusals.note(5 + REPEAT_MS_MIN, "a"), Some(1001));
        assert_eq!(refusals.note(6 + REPEAT_MS_MIN, "a"), None);
    }
}
