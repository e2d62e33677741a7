//! One node's daemon: a `proto::Node`, which decides, and real sockets, store, table and readers, which act.
//!
//! One thread runs the event loop and owns all but the readers: only it writes the table and changes the mirror. On a
//! reader, a few more threads block on the shared file system.

mod beyond;
mod clients;
mod config;
mod control;
mod control_socket;
mod drive;
mod error;
mod event_loop;
mod generation;
mod keeping;
mod log;
mod mounts;
mod preload;
mod pressure;
pub mod process;
mod recorded;
mod recorder;
mod recovery;
mod replicas;
mod report;
mod role;
mod run;
mod session;

pub use beyond::COMPLETE;
pub use config::{CacheOptions, Config, ConfigError, Disk, SOCKET_PATH_BYTES_MAX};
pub use control::{Command, Control};
pub use control_socket::{protocol, stats};
pub use error::DaemonError;
pub use generation::older_tables;
pub use headwater_abi::table::Geometry;
pub use headwater_mount::{LocksConfig, MountConfig};
pub use headwater_overlay::{Fabric, LinkProtection, SessionId, SessionKey, has_aes};
pub use headwater_proto::{Kinds, Policy};
pub use headwater_topology::{Branching, Forest, Shape};
pub use log::{Priority, log_to_stderr, priority_prefix};
pub use mounts::serve_mount;
pub use preload::plan::{Preload, PreloadList, PreloadProgram};
pub use pressure::memory_free;
pub use report::{Cached, Clients, LargeFiles, Memory, Mount, Overlay, Preloaded, Report, SharedFs};
pub use run::{run, run_from_stdio};
pub use session::{Leaving, Session};
