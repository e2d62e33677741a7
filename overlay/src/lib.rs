//! The links between nodes: protected connections over TCP or libfabric, and the content that travels on them.

mod addresses;
mod buffer;
mod carried;
mod carrier;
pub mod channel;
mod content_out;
mod dialling;
mod link;
mod links;
mod noise;
mod rails;
mod records;
mod refusals;
mod session;
mod shared;
mod stream;
#[cfg(test)]
mod tests;
mod transfers;
mod unsent;
mod upgrading;

pub use addresses::Addresses;
#[cfg(fuzzing)]
pub use carrier::fuzz as fuzz_carrier;
pub use content_out::ContentOut;
pub use link::{Identity, Traffic};
pub use links::probe::probe;
pub use links::state::LinkState;
pub use links::{LinkEvent, Links, Next};
pub use noise::has_aes;
pub use rails::{Interface, RAILS_MAX, Rails, listen_on};
pub use session::{Fabric, LinkProtection, NoLinkProtection, NotHexadecimal, SessionId, SessionKey};
pub use transfers::{Arrival, ArrivalError, Transfers, store_all};
