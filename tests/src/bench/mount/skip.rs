//! Whether the mounted file system can be measured here.

use crate::bench::Report;
use crate::harness::{Mechanism, is_root};

/// Reports why nothing can be measured here; false if something can.
pub(super) fn is_skipped(report: &mut Report) -> bool {
    let reason = Mechanism::Mount.check().err();
    let reason = reason.or_else(|| (!is_root()).then(|| "dropping caches needs root".into()));
    if let Some(reason) = &reason {
        report.line(format!("skipped: {reason}"));
    }
    reason.is_some()
}
