//! The interface in C: programs that include `<headwater.h>`, and tools that include `<headwater-launch.h>`.
//!
//! They run `target/dist/bin/headwater`, with the headers beside it; `cargo xtask dist` makes both.

mod calls;
mod session;
mod spindle;
