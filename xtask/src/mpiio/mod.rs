//! The library that transforms I/O: its generated files, how its front and variants are compiled, and their tests.

mod build;
mod core;
mod front;
mod header;
mod mpis;
mod table;
mod tests;
mod wrappers;

pub use build::{CALLS, FLOORS, FRONT, SOURCES, build, build_checked, dist};
pub use core::run as test_core;
pub use tests::run as test;
