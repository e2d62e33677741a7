//! How tests end.

use std::collections::BTreeMap;

/// How each test ended, in a word.
pub type Outcomes = BTreeMap<String, String>;

/// A test's ends.
pub const PASSED: &str = "passed";
pub const FAILED: &str = "failed";
pub const SKIPPED: &str = "skipped";
