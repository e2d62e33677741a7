//! The mounted file system: what the kernel answers by itself, the cost of a first access, alone and over the overlay,
//! and the daemons' memory and survival.

mod cold;
mod fuse_requests;
mod kills;
mod parallel;
mod resident;
mod skip;
mod tree;
mod warm;

pub(super) use cold::run as cold;
pub(super) use fuse_requests::run as fuse_requests;
pub(super) use kills::run as kills;
pub(super) use parallel::run as parallel;
pub(super) use resident::run as resident;
pub(super) use warm::run as warm;
