//! Runs the same program with and without Headwater and compares what it did.

mod build;
mod program;
mod session;
mod traces;

pub use build::Fixture;
pub use program::{Output, Program, Running};
pub use session::{Headwater, Session, Starting, headwater_binary};
pub use traces::{processes_using, wait_until};

/// Says why a test does nothing here.
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
