//! The supervisor: it holds a mounted file system's connection and starts the daemon that serves it, again if the
//! daemon dies.
//!
//! It opens the device, mounts and performs INIT; the daemon inherits the connection's descriptors. While any process
//! has them open, the kernel retains all requests. A new daemon has the requests resent that its predecessor left
//! unanswered. If no daemon can be started, the supervisor serves the source files itself.
//!
//! It has one thread and does little, so that it rarely fails.

mod abandoned;
mod child;
pub mod client;
mod config;
mod lock_store;
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
