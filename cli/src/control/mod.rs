//! Requests to the daemons of a running session.

pub mod client;
pub mod find;
pub mod options;
pub mod stats;
