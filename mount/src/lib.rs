//! The mounted file system: one more client of the node.
//!
//! Workers read FUSE requests and answer from the shared table, with short locks and without a message. If the table
//! lacks something, the node is asked and the request is parked: no thread waits for it. When the node has answered,
//! the request is served again from its start.

mod call;
mod caller;
mod change;
mod config;
mod content;
mod directory;
mod dispatcher;
mod forget;
mod generation;
mod nodes;
mod notifier;
mod owner;
mod serve;
mod source_file;
mod start;
mod state;
mod view;
mod without_node;
mod worker;

pub use call::Demand;
pub use config::{LocksConfig, MountConfig, Start};
pub use dispatcher::Mount;
#[cfg(fuzzing)]
pub use source_file::fuzz_journal;
pub use source_file::locks::handover::{LockChange, LockHandover, TakenLock};
pub use source_file::locks::queue::Holder as LockHolder;
pub use state::counters::Count;
pub use state::counts::Counts;
pub use state::tables::OlderTable;
pub use worker::{Parked, WorkerEvent};
