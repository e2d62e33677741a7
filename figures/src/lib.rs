//! Numbers, tables and curves as people read them: what commands, tests and `cargo xtask` print and draw.

pub mod plot;
pub mod text;
