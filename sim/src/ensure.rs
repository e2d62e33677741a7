//! Expectations.

/// An unmet expectation, without its place and time.
pub(crate) type Check = Result<(), String>;

/// Fails with `what` unless it `holds`.
pub(crate) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(what()) }
}
