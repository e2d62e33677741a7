//! Rails: a link over several network interfaces is one stream of bytes over several connections, one for each
//! interface. The links of a session have rails if its user names interfaces; then also a link with a single one.
//!
//! | file | what it does |
//! |---|---|
//! | `pairs.rs` | which interface of this node leads to which address of a peer |
//! | `socket.rs` | sockets that listen and connect on one interface |
//! | `stream.rs` | one stream over several connections |
//! | `arriving.rs` | accepted connections, until all of a link have arrived |
//! | `links.rs` | dialling and accepting such links; what becomes of interfaces that fail |

mod arriving;
mod links;
mod pairs;
mod socket;
mod stream;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

pub(crate) use self::links::RailState;
pub(crate) use self::stream::{RailFailure, RailStream};

pub use self::socket::listen_on;

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
