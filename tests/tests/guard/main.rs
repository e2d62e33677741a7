//! `headwater guard`: jobs on a real file system, of which one hammers its metadata.
//!
//! It runs `target/dist/bin/headwater`; `cargo xtask dist` makes it.

mod jobs;
mod refusals;
mod without_identity;
