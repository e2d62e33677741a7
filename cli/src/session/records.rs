//! Which nodes report what their processes use.

use headwater_topology::Rank;
use serde::{Deserialize, Serialize};

/// Which nodes report what their processes use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Records {
    /// None.
    #[default]
    None,
    /// The first node that runs programs.
    First,
    /// Every one, so that one that reports nothing is noticed.
    All,
}

impl Records {
    /// Returns whether the daemon of this rank records; `servers` ranks run no programs.
    pub fn has(self, rank: Rank, servers: u32) -> bool {
        match self {
            Records::None => false,
            Records::First => rank.0 == servers,
            Records::All => true,
        }
    }
}
