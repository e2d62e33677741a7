//! Daemons as processes, attacked over TCP by peers and strangers, and on the node by other users.

mod failing;
mod flood;
mod greetings;
mod liar;
mod process;
mod recordings;
mod secret;
mod stranger;
#[path = "../support/mod.rs"]
mod support;
mod users;
mod wire;
