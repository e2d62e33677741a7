//! `headwater explain`: why a program's start takes as long as it does.

pub mod options;
pub mod recorded;

mod entries;
mod files;
mod gain;
mod imports;
mod phases;
mod run;
mod searches;
mod strace;
mod summary;
mod workload;

pub use self::entries::entries;
pub use self::files::Names;
pub use self::run::Run;
pub use self::summary::{Origin, summarize};
pub use self::workload::trace_of;
