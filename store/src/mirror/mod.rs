//! The store: a mirror of the original tree in node-local memory.
//!
//! Under one prefix every path stands as in the original: directories as their listings become
//! known, links as links, files once their content is complete. A file that is still arriving stands
//! beside the mirror and is renamed into it; the holes of one that is there in part are filled in
//! place, so its inode stays. Only the event loop changes the mirror; readers write the files that
//! they are given. Nothing here is mapped.

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
pub use budget::{Budget, Reservation};
pub use incoming::Incoming;
pub use lease::is_in_use;
pub use paths::in_scope;
pub use store::Store;
