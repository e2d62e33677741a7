//! Layouts and messages that Headwater's processes share.
//!
//! - [`table`]: the node's published index in shared memory, one writer, lock-free readers;
//! - [`client`]: the socket on which a process requests from its node's daemon what the table lacks;
//! - [`wire`]: the messages between daemons.
//!
//! The C side of the first two is `include/headwater/{table,client}.h`; `tests/mirror.rs` compiles
//! those headers and compares every constant and offset with the ones here.
//!
//! This crate has no I/O, no clock and no `unsafe` code: shared memory is a slice of atomic words.

#![cfg_attr(not(loom), no_std)]

extern crate alloc;

pub mod attr;
pub mod client;
pub mod hash;
pub mod listing;
pub mod path;
pub mod table;
pub mod wire;

pub use attr::{Attr, Kind};
pub use client::Want;
pub use listing::{Listing, Name};
pub use path::Path;
