//! A daemon's number.

use serde::{Deserialize, Serialize};

/// A daemon's number in the hostlist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Rank(pub u32);

impl Rank {
    /// The rank that reads the shared file system.
    pub const ROOT: Rank = Rank(0);
}
