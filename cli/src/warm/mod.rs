//! `--ranks-from zygote`: on each node one process does a program's start, and the ranks are forked from it.
//!
//! The process that the launcher started stays as the rank's [proxy]. It requests the rank from the node's [owner],
//! forwards signals, and ends with the rank's status. The first proxy starts the owner, which has the zygotes. They
//! exchange packets ([packet]), the first of which is a [request]. On any failure before the rank has started, the
//! proxy executes the program. A rank is never started twice.
//!
//! Nothing is left: the owner kills a rank whose proxy has ended, and the kernel kills ranks and zygotes with the
//! owner. The owner ends one second after its last proxy.

mod node;
pub mod options;
mod owner;
mod packet;
mod proxy;
mod request;
pub mod reseed;
mod zygotes;

pub use node::{Forked, is_first_refusal};
pub use owner::serve;
pub use proxy::{NotBegun, RankSpec, become_rank};
