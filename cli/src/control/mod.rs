//! Talking to the daemons of a running session: `stats`, `clear` and `refresh`.

mod clear;
pub mod client;
mod find;
pub mod options;
mod refresh;
mod stats;

pub use clear::clear;
pub use refresh::refresh;
pub use stats::stats;
