//! The kernel's FUSE protocol, as `/dev/fuse` speaks it: requests, replies, notifications, the
//! device, and mounting.
//!
//! The protocol is that of `linux/fuse.h`. What is read from the device is decoded without trust,
//! as anything that comes from outside. Node numbers and inode numbers are two things here, and a
//! connection whose INIT is long over can be taken on by another process: a server is handed
//! devices and the [`Negotiated`] settings, and knows nothing of how they came to be.

mod decode;
pub mod device;
pub mod directory;
pub mod init;
mod ioctl;
pub mod mount;
pub mod reply;
pub mod request;
mod wire;

pub use device::Device;
pub use directory::Directory;
pub use init::Negotiated;
pub use reply::{Entry, Reply};
pub use request::{Operation, Request};

/// The number of a node of the mounted tree, chosen by the server; the root's is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The root's.
    pub const ROOT: NodeId = NodeId(1);
}
