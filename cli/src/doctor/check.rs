//! The findings, check by check.

use serde::Serialize;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CheckResult {
    /// All is well.
    Ok,
    /// Headwater works, but not as well as it could.
    Warning,
    /// A mechanism lacks something that it needs.
    Missing,
}

/// One line of the findings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was checked.
    pub(super) name: &'static str,
    pub(super) verdict: CheckResult,
    /// What was found.
    pub(super) found: String,
    /// The next step, unless all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

impl Check {
    /// Returns whether all is well.
    pub fn is_ok(&self) -> bool {
        self.verdict == CheckResult::Ok
    }

    pub(super) fn ok(name: &'static str, found: impl Into<String>) -> Check {
        Check { name, verdict: CheckResult::Ok, found: found.into(), next: None }
    }

    pub(super) fn warning(name: &'static str, found: impl Into<String>, next: impl Into<String>) -> Check {
        Check { name, verdict: CheckResult::Warning, found: found.into(), next: Some(next.into()) }
    }

    pub(super) fn missing(name: &'static str, found: impl Into<String>, next: impl Into<String>) -> Check {
        Check { name, verdict: CheckResult::Missing, found: found.into(), next: Some(next.into()) }
    }
}

/// Which mechanisms work here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Mechanisms {
    pub namespace: bool,
    pub audit: bool,
    pub mount: bool,
}

/// All findings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Findings {
    pub(super) checks: Vec<Check>,
    pub mechanisms: Mechanisms,
    /// What `--via auto` would choose for an ordinary program.
    pub(super) via: &'static str,
    /// The reason for that.
    pub(super) via_reason: String,
    /// What was removed.
    pub(super) removed: Vec<String>,
}
