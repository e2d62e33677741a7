//! The overlay's shape. It is a crate of its own, because more than the node asks for it.

pub use headwater_topology::{Rank, Topology};
