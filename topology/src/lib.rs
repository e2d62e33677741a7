//! The overlay's shapes.
//!
//! Parents and children are a pure function of the number of ranks and a few settings, so each daemon
//! computes them alone and deaths change no numbers. There is no I/O and no clock here, nothing is built in
//! memory, and every answer takes O(log n) steps, up to `u32::MAX` ranks. The reasons and the arithmetic are
//! in `docs/internals/topology.md`.
//!
//! - [`Tree`]: one tree over ranks, k-ary or binomial.
//! - [`Forest`]: a single tree, striped trees or partitions, with or without dedicated servers; the
//!   assignment of paths and chunks to the trees; a rank's next hop when others have died.
//! - [`hosts`]: names of nodes, and the order of ranks that follows switches or racks.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod forest;
pub mod hosts;
mod rank;
mod stripes;
mod succession;
mod tree;

pub use forest::{Forest, READERS_NODES, SUCCESSORS_MAX, Shape, TREES_MAX, TreeId};
pub use rank::Rank;
pub use succession::Up;
pub use tree::{Branching, Tree};
