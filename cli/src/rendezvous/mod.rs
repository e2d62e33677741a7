//! A job: a program that a launcher starts on other nodes.
//!
//! `headwater run -- LAUNCHER … PROGRAM …` puts `headwater exec --job FILE --` before the program. The first
//! process on a node starts the node agent (`node`). It joins the others at the front end (`front`), starts the
//! node's daemon, and sends the daemon's address to attaching processes (`attach`). It ends with the launcher. On any
//! failure the program runs without it.

mod allocation;
mod attach;
pub mod client;
pub mod events;
pub mod file;
mod front;
mod inline;
pub mod interfaces;
mod membership;
pub mod messages;
mod node;
pub mod paths;
pub mod persistent;
pub mod ports;
mod programs;
mod run;
mod served;
mod watch;

pub use attach::attach;
pub use inline::front;
pub use messages::{Answer, NodeAccess, NodeIo, ToProcess};
pub use node::serve as serve_node;
pub use programs::find;
pub use run::{run, run_in, run_in_job, run_without};
