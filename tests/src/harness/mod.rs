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

use std::process::Command;

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

/// True if this system's C library is a glibc older than that.
pub fn glibc_is_before(major: u32, minor: u32) -> bool {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let numbers: Vec<u32> = text.trim_start_matches("glibc ").trim().split('.').map_while(|n| n.parse().ok()).collect();
    numbers.len() >= 2 && (numbers[0], numbers[1]) < (major, minor)
}

/// The reason why no zygote stops before the first constructor, if so.
pub fn no_early_stop() -> Option<&'static str> {
    if !cfg!(target_arch = "x86_64") {
        return Some("no zygote stops before the first constructor");
    }
    glibc_is_before(2, 34).then_some("before glibc 2.34, libpthread begins before a zygote")
}

/// Why programs that call dlmopen can't be audited, if so.
pub fn no_second_namespace(via: Mechanism) -> Option<&'static str> {
    (via == Mechanism::Audit && glibc_is_before(2, 35)).then_some("before glibc 2.35, dlmopen ends an audited program")
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
