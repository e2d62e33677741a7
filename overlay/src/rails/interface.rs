//! The interfaces that links use.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// Connections of one link; further interfaces are left out.
pub const RAILS_MAX: usize = 8;

/// The interfaces that a node's links use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rails {
    /// This node's interfaces. Without any, the system's routes choose one.
    pub interfaces: Vec<Interface>,
    /// By rank, the addresses at which it listens, one for each of its interfaces.
    pub peers: Vec<Vec<SocketAddr>>,
    /// The inherited descriptors of this rank's listeners but the first.
    pub listener_fds: Vec<i32>,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Its name, such as `ib0`.
    pub name: String,
    /// This node's address there.
    pub address: IpAddr,
    /// The bits of the address that are those of its network.
    pub prefix_bits: u8,
}

impl Interface {
    /// Returns whether this address is one of the interface's network.
    pub(crate) fn is_on_network(&self, other: IpAddr) -> bool {
        match (self.address, other) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differing = u32::from(own) ^ u32::from(other);
                differing.leading_zeros() >= self.prefix_bits.into()
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differing = u128::from(own) ^ u128::from(other);
                differing.leading_zeros() >= self.prefix_bits.into()
            }
            _ => false,
        }
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.address)
    }
}
