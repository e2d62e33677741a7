//! Reads the shared file system; no other code touches it.
//!
//! All calls block, so they run on the threads of the [`Pool`]. Each job opens its file or lists its directory once,
//! with one look-up of the path's last component.

mod all_users;
mod cached;
mod content;
mod directories;
mod facts;
mod jobs;
mod pool;
mod reader;
mod sources;

pub use cached::FindJob;
pub use jobs::{DigestJob, FileError, FileEvent, FileJob, Opened, ReadEvent, ReadJob};
pub use pool::Pool;
pub use reader::SharedFs;
