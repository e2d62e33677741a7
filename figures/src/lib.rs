//! Formats numbers, tables and bars as text, and draws curves, for commands, tests and `cargo xtask`.

pub mod plot;
pub mod results;
pub mod text;
