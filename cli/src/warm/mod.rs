//! `--ranks-from zygote`: on each node one process does a program's start, and its ranks are forked from that.
//!
//! What a launcher starts stays as the rank's [proxy]: it asks the node's [owner], which it starts if there is none,
//! and then passes signals on and ends as the rank does. The owner has the zygotes. They speak in packets ([packet]),
//! the first of which is a [request]. Until a rank has begun, whatever fails means that the proxy executes the program,
//! as it would have done without all this; a rank that has begun is never begun again.
//!
//! Nothing is left: a rank is killed when its proxy has gone, and by the kernel when the owner has; zygotes end with
//! the owner, and the owner when no proxy has been there for a second.

mod node;
pub mod options;
mod owner;
mod packet;
mod proxy;
mod request;
pub mod reseed;
mod zygotes;

pub use node::ranks_of;
pub use owner::serve;
pub use proxy::{NotBegun, RankSpec, become_rank};
