//! Limits the restarts of a daemon that keeps dying.

use std::time::Duration;

/// A daemon that dies earlier has not proved that it can serve.
const LIFE_MIN: Duration = Duration::from_millis(250);
/// Such daemons in a row, after which none is started.
const FAILURES_MAX: u32 = 5;
/// After so many, the executable is not trusted: its file may have been replaced by one that does not run here.
const FAILURES_OF_REPLACED_MAX: u32 = 2;

/// The latest failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Restarts {
    failures: u32,
}

/// What to do after a daemon has died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Start the executable at its path.
    Start,
    /// Start the executable that this process runs.
    StartOwn,
    /// Start none.
    GiveUp,
}

impl Restarts {
    /// Notes that a daemon died after `lived`, or could not be started (`None`). Returns what to do.
    pub(crate) fn died(&mut self, lived: Option<Duration>) -> Next {
        let has_served = lived.is_some_and(|lived| lived >= LIFE_MIN);
        self.failures = if has_served { 0 } else { self.failures + 1 };
        match self.failures {
            FAILURES_MAX.. => Next::GiveUp,
            FAILURES_OF_REPLACED_MAX.. => Next::StartOwn,
            _ => Next::Start,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_that_never_serve_are_given_up() {
        let mut restarts = Restarts::default();
        let (short, long) = (Some(Duration::from_millis(20)), Some(Duration::from_secs(1)));
        (0..100).for_each(|_| assert_eq!(restarts.died(long), Next::Start));
        let all = [short, None, short, short, long, short, short, None, short, short].map(|lived| restarts.died(lived));
        use Next::{GiveUp, Start, StartOwn};
        assert_eq!(all, [Start, StartOwn, StartOwn, StartOwn, Start, Start, StartOwn, StartOwn, StartOwn, GiveUp]);
    }
}
