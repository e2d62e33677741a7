//! Exit statuses of the command itself.

/// A failure of headwater's own, as `env` and `timeout` have it.
pub const FAILURE: u8 = 125;
