//! A session on this machine: its directory, its daemons and its events.

pub mod daemons;
pub mod directory;
pub mod events;
pub mod mounts;
pub mod opened;
pub mod prepare;
pub mod records;
pub mod serving;
pub mod signals;
pub mod stale_mounts;
pub mod store;
pub mod wait;
