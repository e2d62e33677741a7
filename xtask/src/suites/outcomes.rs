//! How tests end.

use std::collections::BTreeMap;

/// The outcome of each test.
pub type Outcomes = BTreeMap<String, String>;

/// A test's ends.
pub const PASSED: &str = "passed";
pub const FAILED: &str = "failed";
pub const SKIPPED: &str = "skipped";
