//! One node's content and facts, in node-local memory: the mirror of the source tree with its blocks and replicas, the
//! mapped table that processes read, copies that follow their source files, and the layout of the node's directory.

mod attr;
mod digest;
mod follow;
pub mod layout;
mod mirror;
mod table;

pub use attr::{ATTR_FIELDS, attr_at, d_type_of};
pub use digest::{Digester, digest, digest_of};
pub use follow::{Followed, Following};
pub use mirror::{Blocks, Budget, Incoming, Partial, Reservation, Residency, Store, copied_mode, in_scope, is_in_use};
pub use table::{Table, view};
