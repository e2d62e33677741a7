//! Room for what the tests build.

use std::path::Path;

/// What a first run takes in `target/`, in bytes.
const FIRST_RUN_BYTES: u64 = 20 << 30;
/// A file system with less room is full, in bytes.
const FULL_BYTES: u64 = 64 << 20;

/// Returns the bytes that are free where `target/` is.
fn free_bytes() -> Option<u64> {
    let place = Some(Path::new("target")).filter(|place| place.exists()).unwrap_or(Path::new("."));
    rustix::fs::statvfs(place).ok().map(|room| room.f_bavail * room.f_frsize)
}

/// Warns before a first run for which there is no room.
pub fn warn_if_short() {
    let is_first = !Path::new("target/roots").exists();
    if let Some(free) = free_bytes().filter(|free| is_first && *free < FIRST_RUN_BYTES) {
        println!(
            "warning: {} GB are free in target/, and a first run takes {}: make room, or clone to another file system",
            free >> 30,
            FIRST_RUN_BYTES >> 30
        );
    }
}

/// Returns why a step may have failed, if the file system is full.
pub fn explanation() -> Option<&'static str> {
    let is_full = free_bytes().is_some_and(|free| free < FULL_BYTES);
    is_full.then_some("the file system of target/ is full: make room, and repeat")
}
