//! The mounted file system: one more client of the node.
//!
//! Workers read the kernel's requests and answer from the shared table, without a lock that anybody
//! holds for long and without a message. What the table lacks is asked of the node, and the request
//! is parked meanwhile: no thread waits for it. When the node has answered, the request is served
//! again from its start.

mod ahead;
mod caller;
mod change;
mod config;
mod content;
mod counters;
mod counts;
mod desk;
mod directory;
mod forget;
mod generation;
mod nodes;
mod notifier;
mod original;
mod originals;
mod serve;
mod start;
mod tables;
mod view;
mod worker;

pub use config::MountConfig;
pub use counters::Count;
pub use counts::Counts;
pub use desk::{Asked, Mount};
#[cfg(fuzzing)]
pub use original::fuzz_journal;
pub use start::Start;
pub use tables::OlderTable;
pub use view::Wanted;
pub use worker::Parked;
