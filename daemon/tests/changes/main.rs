//! Changes of a tree through a real, writable mount and on a plain copy of the tree: results,
//! error numbers and trees must be the same.

mod attributes;
mod contents;
mod names;
mod nodes;
mod pair;
mod read_only;
#[path = "../support/mod.rs"]
mod support;
mod users;
