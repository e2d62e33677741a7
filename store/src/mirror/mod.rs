//! The store: a mirror of the source tree in node-local memory.
//!
//! Below one prefix every path is as in the source tree: directories once they are listed, links, and files once their
//! content is complete. An incomplete file is beside the mirror and is renamed into it. The holes of a partial file are
//! filled in place, so its inode stays. Only the event loop changes the mirror; reader threads write files that they
//! are given. Nothing here is mapped.

mod adopt;
mod attributes;
mod block_files;
mod blocks;
mod budget;
mod domain_copies;
mod generations;
mod hidden;
mod incoming;
mod lease;
mod parked;
mod parking;
mod paths;
mod recent;
mod replicas;
mod small;
mod store;
#[cfg(test)]
mod tests;

pub use attributes::copied_mode;
pub use blocks::{Blocks, Partial, Residency};
pub(crate) use budget::pages;
pub use budget::{Budget, Reservation};
pub use incoming::Incoming;
pub use lease::is_in_use;
pub use paths::in_scope;
pub use store::Store;
