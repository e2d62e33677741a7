//! The kernel's FUSE protocol on `/dev/fuse`: requests, replies, notifications, the device, and mounting.
//!
//! The protocol is that of `linux/fuse.h`. Bytes from the device are not trusted. Node numbers and inode
//! numbers are different things. Another process can take over a connection after INIT: a server gets devices
//! and the [`Negotiated`] settings, whatever process made them.

mod decode;
pub mod device;
pub mod directory;
pub mod init;
mod ioctl;
pub mod mount;
mod node_id;
mod pipe;
pub mod reply;
pub mod request;
mod wire;

pub use device::Device;
pub use directory::Directory;
pub use init::Negotiated;
pub use node_id::NodeId;
pub use pipe::Pipe;
pub use reply::{Entry, Reply};
pub use request::{Lock, LockKind, Operation, Request};
