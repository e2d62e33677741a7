//! `headwater explain`: why a program's start takes as long as it does.

pub mod missing;
pub mod options;
pub mod recorded;

mod entries;
mod files;
mod gain;
mod imports;
mod phases;
mod run;
mod searches;
mod served;
mod strace;
mod summary;
mod workload;

pub use self::entries::entries;
pub use self::files::Names;
pub use self::run::Run;
pub use self::served::{Session, account};
pub use self::summary::{Origin, summarize};
pub use self::workload::trace_of;
