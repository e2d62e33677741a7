//! Rails: a link over several network interfaces is one stream of bytes over several connections, one for each
//! interface. The links of a session have rails if its user names interfaces; then also a link with a single one.
//!
//! | file | what it does |
//! |---|---|
//! | `interface.rs` | the interfaces that links use |
//! | `pairs.rs` | which interface of this node leads to which address of a peer |
//! | `socket.rs` | sockets that listen and connect on one interface |
//! | `stream.rs` | one stream over several connections |
//! | `arriving.rs` | accepted connections, until all of a link have arrived |
//! | `links.rs`, `state.rs` | dialling and accepting such links; what becomes of interfaces that fail |

mod arriving;
mod interface;
mod links;
mod pairs;
mod socket;
mod state;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use self::state::RailState;
pub(crate) use self::stream::{RailFailure, RailStream};

pub use self::interface::{Interface, RAILS_MAX, Rails};
pub use self::socket::listen_on;
