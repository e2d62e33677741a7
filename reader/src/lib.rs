//! Reading the shared file system: the only code that touches it.
//!
//! Every call blocks, so it runs on the threads of the [`Pool`]. Each job opens its file or reads
//! its directory once, at the cost of one look-up of the path's last component.

mod all_users;
mod content;
mod directories;
mod facts;
mod jobs;
mod pool;
mod reader;
mod sources;

pub use jobs::{DigestJob, FileError, FileEvent, FileJob, Opened, ReadEvent, ReadJob};
pub use pool::Pool;
pub use reader::SharedFs;
