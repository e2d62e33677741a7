//! Real programs with and without Headwater: the same output and the same exit status.
//!
//! They run `target/dist/bin/headwater`; `cargo xtask dist` makes it.

mod audit;
mod containers;
mod debugger;
mod demonstration;
mod exec;
mod files;
mod generations;
mod hostile;
mod interpreters;
mod leftovers;
mod memory;
mod names;
mod open_close;
mod options;
mod read_once;
mod search;
mod statics;
mod table;
mod tools;
mod wrappers;
mod writes;
