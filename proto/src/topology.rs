//! The overlay's shapes, see [`headwater_topology`].

pub use headwater_topology::{Branching, Forest, Rank, Shape, TreeId, Up};
