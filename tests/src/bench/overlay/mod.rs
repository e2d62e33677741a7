//! The overlay: real daemons on the nodes of a cluster, over links of a known rate.

mod broadcast;
mod copies;
mod encryption;
mod files;
mod interfaces;
mod kills;
mod latency;
mod links;
mod reserve;
mod setup;
mod simulated;
mod start;

pub(super) use broadcast::run as broadcast;
pub(super) use encryption::run as encryption;
pub(super) use files::run as files;
pub(super) use interfaces::run as interfaces;
pub(super) use kills::run as kills;
pub(super) use latency::run as latency;
pub(super) use simulated::run as simulated;
pub(super) use start::run as start;
