//! The state of the mount's parts. None of these files knows a request or the tree.

pub(crate) mod absent;
pub(crate) mod contents;
pub(crate) mod counters;
pub(crate) mod counts;
pub(crate) mod file_systems;
pub(crate) mod notices;
pub(crate) mod polls;
pub(crate) mod tables;
