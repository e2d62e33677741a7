//! Names of nodes: lists of them in the usual notation, and the order of ranks that follows switches or
//! racks.
//!
//! - [`Hostlist`]: `node[001-128,200],login1`, parsed, printed, and searched for a name;
//! - [`Switches`]: which nodes share a leaf switch, from Slurm's `topology.conf` or a table of racks.
//!
//! Both take text and return values; callers read files and environment variables.

mod conf;
mod fold;
mod hostlist;
mod numbers;
mod parse;
mod pattern;
mod switches;
mod switches_error;

pub use hostlist::{Hostlist, NoRank};
pub use parse::{HOSTS_MAX, HostlistError, NAME_BYTES_MAX, Problem, RANGES_MAX};
pub use pattern::GROUPS_MAX;
pub use switches::{Order, Switches};
pub use switches_error::{LINKS_MAX, NODES_MAX, SWITCHES_MAX, SwitchesError};
