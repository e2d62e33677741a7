//! Formats numbers and tables as text, and draws curves, for commands, tests and `cargo xtask`.

pub mod plot;
pub mod text;
