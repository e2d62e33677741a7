//! Daemons as processes, attacked over TCP by peers with and without the key, and on the node by other users.

mod failing;
mod flood;
mod greetings;
mod liar;
mod peer;
mod process;
mod recordings;
mod secret;
#[path = "../support/mod.rs"]
mod support;
mod users;
mod wire;
