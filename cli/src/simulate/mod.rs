//! What `headwater simulate` and `headwater plan` share: options, set-up and reports.

pub mod inputs;
pub mod options;
pub mod plan;
pub mod report;
pub mod setup;
