//! The mounted file system: what the kernel answers by itself, what a first touch costs, alone and
//! over the overlay, and what daemons hold and survive.

mod cold;
mod kills;
mod parallel;
mod resident;
mod tree;
mod upcalls;
mod warm;

use super::Report;

pub(super) use cold::run as cold;
pub(super) use kills::run as kills;
pub(super) use parallel::run as parallel;
pub(super) use resident::run as resident;
pub(super) use upcalls::run as upcalls;
pub(super) use warm::run as warm;

/// Says why nothing can be measured here; false if something can.
fn is_skipped(report: &mut Report) -> bool {
    let reason = crate::harness::Mechanism::Mount.check().err();
    let reason = reason.or_else(|| (!crate::harness::is_root()).then(|| "dropping caches needs root".into()));
    if let Some(reason) = &reason {
        report.line(format!("skipped: {reason}"));
    }
    reason.is_some()
}
