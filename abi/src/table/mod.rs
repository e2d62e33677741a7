//! The shared table: what a node knows, which processes read without a lock or a system call.
//!
//! One writer (the node's daemon) appends; any number of readers look up. A record is written in full before
//! the slot that names it is stored with release order, and while there are readers, a slot never leads to
//! another record. What a record lacks at first (attributes, a listing, a link's target) has reserved space
//! and is written before the state bit that announces it. One word, the *state*, has the kind and all bits,
//! so a reader takes one consistent snapshot with one acquire load. After that only residency and passthrough
//! bits change in place.
//!
//! A record's number is stable for the record's life, under any writer: a table outlives its writer, and
//! another one may continue it ([`Writer::attach`]). Only without readers can records be removed
//! ([`Writer::reclaim`]) and their space be reused.
//!
//! Layout, all in little-endian words of eight bytes: header, path slots, inode slots, heap. The heap
//! contains records, listings, link targets and the header's strings.
//!
//! Readers trust nothing: every offset is checked against the mapping, every probe sequence and string has a
//! limit, and damage reads as "not known".

mod attach;
mod free;
mod layout;
mod names;
mod reader;
mod slots;
mod succeed;
mod sync;
mod writer;

pub use layout::{Geometry, Header, MAGIC, PROBES_MAX, State, VERSION, View, word};
pub use names::{Named, Names};
pub use reader::{Reader, Record};
pub use succeed::copy;
pub use sync::{AtomicU64, Ordering};
pub use writer::{Fact, TableError, Writer};
