//! The supervisor: it holds a mounted file system's connection, and starts the daemon that serves it,
//! again and again if need be.
//!
//! It opens the device, mounts, and comes to terms with the kernel; the daemon inherits the
//! connection's descriptors. While one process has them open, the kernel keeps every request: a daemon
//! that takes over has those sent again that its predecessor left unanswered. If no daemon comes up
//! any more, the supervisor answers from the originals itself.
//!
//! It has one thread and does little, so that little can go wrong with it.

mod abandoned;
mod child;
pub mod client;
mod config;
pub mod measure;
mod mounting;
pub mod namespace;
mod own_server;
mod restarts;
mod run;
mod socket;
mod stale;
mod supervise;

pub use config::{MountVia, NamespaceVia, SupervisorConfig, Via, WORKERS_DEFAULT};
pub use run::supervise_from_stdio;
pub use stale::{remove_mounts_below, remove_stale, stale_mounts};
