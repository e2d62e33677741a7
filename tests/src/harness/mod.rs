//! Runs the same program with and without Headwater and compares the results.

mod build;
mod mechanism;
mod memory_group;
pub mod mpi;
pub mod nodes;
mod program;
pub mod services;
mod session;
pub mod stats;
mod traces;
pub mod user;
mod view;

pub use build::Fixture;
pub use mechanism::Mechanism;
pub use memory_group::MemoryGroup;
pub use program::{Output, Program, Running};
pub use session::{Headwater, Session, Starting, headwater_binary};
pub use traces::{
    abort_connection, headwater_mounts, is_running, kill, mount_type, processes_using, processor_ticks, uses,
    wait_until,
};
pub use view::{Mounting, View};

/// Prints why a test does nothing here.
pub fn skipped(reason: impl std::fmt::Display) {
    println!("skipped: {reason}");
}

/// True if this process may do what only root may.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// True if a program of this name lies on PATH.
pub fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
}

/// Leaves a test where nothing can be mounted.
#[macro_export]
macro_rules! needs_mounts {
    () => {
        if let Err(reason) = $crate::harness::Mechanism::Mount.check() {
            return $crate::harness::skipped(reason);
        }
    };
}

/// Returns from a test where nothing can be mounted, or where only root can make what it needs.
#[macro_export]
macro_rules! needs_root {
    () => {
        $crate::needs_mounts!();
        if !$crate::harness::is_root() {
            return $crate::harness::skipped("what is tested needs root to make it");
        }
    };
}
