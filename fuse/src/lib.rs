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
mod node_id;
pub mod reply;
pub mod request;
mod wire;

pub use device::Device;
pub use directory::Directory;
pub use init::Negotiated;
pub use node_id::NodeId;
pub use reply::{Entry, Reply};
pub use request::{Operation, Request};
